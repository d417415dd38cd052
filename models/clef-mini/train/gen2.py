"""Second generation of training records: yes/no questions by meaning, JSON records and lists of many shapes, scores, reading, categories, limits, drawn scenes;
mixed with the first generation (gen.py). make() returns the same dictionary as gen.make().

With HELD = False phrasings whose checksum falls into one eighth are never used; with HELD = True (validation) only those, where a list has any.
"""
import hashlib, json, math, os, re, zlib
import numpy as np
import facts, gen, more
from gen import CITY, COLORN, DAYS, LAST, MONTHS, NAMES, OBJ, PROD, RGB, R, ch, choice, fill, ident, jit, noul, onehot, pr, ri, score, shape, slot, wrap_text

HELD = False
HERE = os.path.dirname(os.path.abspath(__file__))


def held(s): return zlib.crc32(s.encode()) % 8 == 0


def pk(xs):
    """choose a phrasing from the training or from the held-out part of a list"""
    if len(xs) < 4: return ch(xs)
    for _ in range(30):
        x = ch(xs)
        if held(x) == HELD: return x
    return ch(xs)


# ------------------------------------------------------------------------------------------ yes/no questions from predicates
YES = ["Does the {S} {b}?"] * 4 + ["The {S} {t}."] * 3 + ["True or false: the {S} {t}.", "Is it true that the {S} {t}?", "Can we say that the {S} {t}?", "Check whether the {S} {t}.", "Does it sound as if the {S} {t}?", "Decide whether the {S} {t}.",
       "Would you say that the {S} {t}?", "Is it correct to say that the {S} {t}?", "Can one conclude that the {S} {t}?", "{t2}?", "Does this {D} show that the {S} {t}?", "In this {D} the {S} {t}.", "Mark true if the {S} {t}.", "Does someone here {b}?",
       "Judging by the {D}, does the {S} {b}?", "I want to know whether the {S} {t}.", "Please check: does the {S} {b}?", "Statement: the {S} {t}."]
NEG = ["The {S} does not {b}.", "It is wrong that the {S} {t}.", "Nothing here says that the {S} {t}.", "Is it false that the {S} {t}?"]
DOCS = ["text", "message", "note", "mail", "post", "entry"]
BE = {"be": ("Is the {S} {r}?", ["The {S} is {r}.", "Is it clear that the {S} is {r}?", "Would you call the {S} {r}?", "Does the {S} seem {r}?"]), }


def ask(vp, S, truth, ids=None, crit=True):
    """a noul question from a base verb phrase"""
    b = vp; t = facts.third(vp); w, _, r = vp.partition(" "); neg = pr(.1)
    if neg:
        q = pk(NEG)
        if w == "be": q = ch(["The {S} is not {r}.", "It is wrong that the {S} {t}."])
        if w in ("not", "would", "can", "be", "have") and "does not" in q: q = NEG[1]
        truth = not truth if isinstance(truth, bool) else 1 - truth
    elif w in ("be",) and pr(.75): q = ch([BE["be"][0]] * 3 + BE["be"][1])
    elif w == "have" and len(r.split()) > 1 and re.match(r"(\w+ed|bought|slept|been|lost|read|waited|received|hurt|worked)\b", r): q = ch(["Has the {S} {r}?"] * 3 + ["The {S} has {r}.", "Is it true that the {S} has {r}?", "Check whether the {S} has {r}."])
    elif w == "not": q = ch(["The {S} {t}.", "Is it true that the {S} {t}?", "Would you say that the {S} {t}?", "Check whether the {S} {t}."])
    elif w in ("would", "can"): q = ch(["%s the {S} {r}?" % w.capitalize(), "The {S} {t}."])
    else: q = pk(YES)
    s = q.format(S=S, b=b, t=t, r=r, D=ch(DOCS), t2=t[0].upper() + t[1:])
    key = ident(" ".join(x for x in vp.split() if x not in ("the", "a", "an", "that", "is", "it", "for", "to", "of", "say", "be"))[:28], 0)
    i, qq, tg = noul(ids or [key, "is_" + key, "flag_" + key.split("_")[0], "check"], [s], truth)
    qq.setdefault("instructions", s)
    if crit and not neg and pr(.18):
        d = ch(facts.DESC).format(t=t, s=S)
        qq["criteria"] = {"true": d} if pr(.4) else {"true": d, "false": ch(["nothing of the kind", "otherwise", "the {S} does not", "no such thing is said", "not the case", "anything else"]).format(S=S)}
    return i, qq, tg


BANK = facts.load()
OPEN = {"customer": ["Hello,", "Hi there,", "Dear team,", "Good evening,", "To whom it may concern:", ""], "employee": ["Hi all,", "Hello {name},", "Dear colleagues,", ""], "applicant": ["Dear Sir or Madam,", "Dear {full},", ""],
        "tenant": ["Dear landlord,", "Hello,", ""], "student": ["Dear Professor {name},", "Hello,", ""], "patient": ["Dear doctor,", "Hello,", ""], "driver": ["Hello,", ""]}
FILL = ["My customer number is {big}.", "I am writing from {city}.", "My name is {full}.", "By the way, it is {day} today.", "I have known you for {n} years.", "This is about order {ord}.", "I saw your page on {day}.", "More on that later.", "Just so you know.",
        "My sister {name} told me to write.", "As I said on {day}.", "It is {time} now.", "I live in {city} with {name}."]


def d_bank():
    c = ch(list(BANK)); gs = BANK[c]; k = min(len(gs), ch([1, 1, 2, 2, 3, 4]))
    if c == "writer": k = min(k, 2)
    sel = R.sample(gs, k); said = {}; parts = []
    for g, closed, vs in sel:
        v = ch(vs); said[g] = v; s = [fill(pk(v[1]))]
        if pr(.15) and len(v[1]) > 2: s.append(fill(pk([x for x in v[1]])))
        parts += list(dict.fromkeys(s))
    if pr(.35) and c != "writer": parts.insert(ri(0, len(parts)), fill(ch(FILL)))
    if pr(.5): R.shuffle(parts)
    o = fill(ch(OPEN.get(c, [""]))) if pr(.4) else ""
    if pr(.25) and c in OPEN: parts.append(fill(ch(["Regards, {name}", "Best, {full}", "{name}", "Sincerely, {full}"])))
    t = (o + " " + " ".join(parts)).strip(); qs = []
    S = lambda: ch(facts.SUBJ[c])
    for g, closed, vs in sel:
        v = said[g]; qs += [ask(pk(v[0]), S(), True)] * (2 if pr(.3) else 1)
        others = [x for x in vs if x is not v]
        if others: qs.append(ask(pk(ch(others)[0]), S(), False))
        if len(vs) > 1:
            m = min(len(others), ri(1, 6)); opts = [v] + R.sample(others, m); style = R.random()
            f = (lambda p: facts.third(p)) if style < .6 else (lambda p: p)
            q = ["What does the {S} do?", "Which statement fits the {S}?", "What is true of the {S}?", "What is the {D} about?", "Which of these is said?", "Pick what applies to the {S}.", "What does the {D} say?", "Main point of the {D}", "Which description fits?", "What best describes the {D}?"]
            if pr(.3): qs.append(choice(["label", "answer", "kind", "what"], [pk(q).format(S=S(), D=ch(DOCS))], [(chr(65 + i), [f(pk(p[0]))]) for i, p in enumerate(opts)], 0, style=.55, desc=2))
            else: qs.append(choice(["intent", "reason", "point", "statement", "main", "situation"], [pk(q).format(S=S(), D=ch(DOCS))], [(f(pk(p[0])), None) for p in opts], 0, style=.55))
    rest = [(g, vs) for g, closed, vs in gs if closed and g not in said]
    for g, vs in R.sample(rest, min(len(rest), 2)): qs.append(ask(pk(ch(vs)[0]), S(), False))
    return wrap_text(t), qs


# ------------------------------------------------------------------------------------------ JSON records
WORD = {  # key -> (spoken names, kind of value, unit)
    "temperature": (["temperature"], (-20, 60), "degrees"), "humidity": (["humidity"], (0, 100), "percent"), "pressure": (["pressure"], (900, 1100), "hPa"), "speed": (["speed"], (0, 220), "km/h"), "weight": (["weight"], (1, 900), "kg"),
    "height": (["height"], (1, 400), "cm"), "age": (["age"], (1, 99), "years"), "price": (["price"], (1, 3000), "euros"), "total": (["total", "total amount"], (1, 5000), "dollars"), "amount": (["amount"], (1, 9000), ""), "quantity": (["quantity"], (0, 60), ""),
    "stock": (["stock", "number in stock"], (0, 300), ""), "score": (["score"], (0, 100), "points"), "rating": (["rating"], (1, 5), "stars"), "votes": (["votes", "number of votes"], (0, 5000), ""), "errors": (["errors", "number of errors"], (0, 40), ""),
    "retries": (["retries", "number of retries"], (0, 12), ""), "latency_ms": (["latency"], (1, 4000), "ms"), "cpu_load": (["CPU load", "load"], (0, 100), "percent"), "memory_mb": (["memory", "memory use"], (10, 64000), "MB"), "disk_used": (["disk use", "used disk space"], (0, 100), "percent"),
    "battery": (["battery", "battery level", "charge"], (0, 100), "percent"), "distance_km": (["distance"], (1, 3000), "km"), "duration_min": (["duration"], (1, 500), "minutes"), "seats": (["seats", "number of seats"], (1, 400), ""), "guests": (["guests", "number of guests"], (1, 300), ""),
    "rooms": (["rooms", "number of rooms"], (1, 12), ""), "floor": (["floor"], (0, 40), ""), "salary": (["salary"], (900, 9000), "euros"), "budget": (["budget"], (100, 90000), "euros"), "discount": (["discount"], (0, 70), "percent"), "tax": (["tax"], (0, 900), ""),
    "followers": (["followers", "number of followers"], (0, 90000), ""), "comments": (["comments", "number of comments"], (0, 900), ""), "visits": (["visits"], (0, 9000), ""), "level": (["level"], (1, 60), ""), "points": (["points"], (0, 500), ""), "pages": (["pages", "number of pages"], (1, 1200), ""),
    "year": (["year"], (1900, 2030), ""), "employees": (["employees", "number of employees"], (1, 4000), ""), "deposit": (["deposit"], (0, 3000), "euros"), "mileage": (["mileage"], (0, 250000), "km"), "fuel": (["fuel", "fuel level"], (0, 100), "percent"), "depth": (["depth"], (1, 900), "m"),
    "children": (["children", "number of children"], (0, 8), ""), "absences": (["absences"], (0, 30), "days"), "warnings": (["warnings"], (0, 9), ""), "attempts": (["attempts", "number of attempts"], (1, 9), ""), "credits": (["credits"], (0, 300), ""), "calories": (["calories"], (10, 1200), ""),
    "logins": (["logins", "number of logins"], (0, 400), ""), "goals_scored": (["goals scored"], (0, 40), ""), "orders": (["orders", "number of orders"], (0, 200), ""), "tickets": (["tickets", "number of tickets"], (0, 90), ""), "downloads": (["downloads"], (0, 70000), ""), "volume": (["volume"], (0, 100), ""),
}
FLAG = {  # key -> (adjective or verb phrase when true, when false, subject)
    "active": ("active", "inactive", "account"), "verified": ("verified", "unverified", "user"), "locked": ("locked", "unlocked", "account"), "enabled": ("enabled", "disabled", "feature"), "is_admin": ("an administrator", "an ordinary user", "user"), "paid": ("paid", "unpaid", "invoice"),
    "open": ("open", "closed", "shop"), "gate_open": ("open", "closed", "gate"), "window_closed": ("closed", "open", "window"), "light_on": ("on", "off", "light"), "heater_on": ("on", "off", "heater"), "online": ("online", "offline", "device"), "connected": ("connected", "disconnected", "device"),
    "insured": ("insured", "uninsured", "car"), "married": ("married", "single", "person"), "vaccinated": ("vaccinated", "unvaccinated", "dog"), "available": ("available", "sold out", "product"), "in_stock": ("in stock", "out of stock", "article"), "fragile": ("fragile", "robust", "parcel"), "signed": ("signed", "unsigned", "contract"),
    "approved": ("approved", "not approved", "request"), "archived": ("archived", "still in use", "document"), "public": ("public", "private", "page"), "full": ("full", "not full", "tank"), "empty": ("empty", "not empty", "box"), "charging": ("charging", "not charging", "phone"), "broken": ("broken", "intact", "machine"),
    "urgent": ("urgent", "not urgent", "ticket"), "answered": ("answered", "unanswered", "message"), "read": ("read", "unread", "mail"), "deleted": ("deleted", "not deleted", "file"), "encrypted": ("encrypted", "not encrypted", "disk"), "premium": ("a premium customer", "no premium customer", "customer"), "late": ("late", "on time", "train"),
    "cancelled": ("cancelled", "not cancelled", "flight"), "reserved": ("reserved", "free", "table"), "occupied": ("occupied", "free", "room"), "furnished": ("furnished", "unfurnished", "flat"), "vegetarian": ("vegetarian", "not vegetarian", "dish"), "refundable": ("refundable", "not refundable", "ticket"), "expired": ("expired", "valid", "licence"),
    "muted": ("muted", "not muted", "channel"), "blocked": ("blocked", "not blocked", "card"), "sold": ("sold", "unsold", "house"), "confirmed": ("confirmed", "unconfirmed", "booking"), "completed": ("completed", "unfinished", "task"), "shipped": ("shipped", "not shipped yet", "order"), "has_pool": ("equipped with a pool", "without a pool", "hotel"),
    "subscribed": ("subscribed", "not subscribed", "reader"), "running": ("running", "stopped", "service"), "sick": ("sick", "healthy", "animal"), "wireless": ("wireless", "wired", "keyboard"), "rented": ("rented out", "vacant", "garage"), "wet": ("wet", "dry", "road"), "closed": ("closed", "open", "account"), "secure": ("secure", "insecure", "connection"),
}
ENUM = {"status": "pending shipped delivered cancelled processing returned paid open closed failed rejected draft".split(), "priority": "low normal high critical".split(), "color": COLORN, "size": "small medium large".split(), "plan": "free basic pro business enterprise".split(), "role": "admin editor viewer guest owner".split(),
        "country": "Spain Italy France Germany Norway Japan Brazil Canada Kenya India Peru Egypt".split(), "city": CITY, "language": "English German French Spanish Russian Chinese Italian".split(), "category": "books toys garden food clothing electronics sports music furniture".split(), "department": "sales marketing legal finance support research logistics".split(),
        "material": "wood steel glass cotton leather plastic paper stone".split(), "weekday": DAYS, "month": MONTHS, "currency": "EUR USD GBP JPY CHF".split(), "payment": "card cash transfer voucher invoice".split(), "transport": "train bus car plane bicycle ship".split(), "animal": "dog cat horse rabbit parrot hamster".split(),
        "weather": "sunny rainy cloudy windy snowy foggy".split(), "channel": "email phone chat letter app".split(), "device": "phone laptop tablet printer camera router".split(), "genre": "comedy drama thriller fantasy documentary western".split(), "instrument": "piano violin guitar drums flute".split(), "fruit": "apple pear banana cherry grape melon".split(),
        "team": "red blue green gold silver".split(), "zone": "A1 B2 C3 D4 E5".split(), "code": "K17 M20 P5 R88 T3 X42".split(), "browser": "Firefox Chrome Safari Edge Opera".split(), "unit": "kg litre metre piece box".split(), "result": "passed failed skipped pending".split(), "species": "oak pine birch maple willow".split()}
NAMED = {"name": "full", "owner": "full", "author": "full", "manager": "full", "driver": "full", "teacher": "name", "customer": "full", "contact": "full", "patient": "full", "winner": "name", "sender": "full", "assignee": "name", "chef": "name", "pilot": "full", "doctor": "full", "seller": "full", "tenant": "full"}
OPTIONAL = ["email", "phone", "address", "website", "comment", "photo", "birthday", "passport", "iban", "nickname", "fax", "company", "middle_name", "signature", "coupon", "warranty", "delivery_note", "tax_id", "attachment", "description"]
OUTER = "user device item record employee building product vehicle booking flight patient course project house machine invoice ticket event parcel animal account recipe match server".split()
UP = ["above", "over", "greater than", "more than", "higher than", "larger than", "bigger than"]; DOWN = ["below", "under", "less than", "lower than", "smaller than"]


def nice(k): return k.replace("_", " ")


def number(k):
    lo, hi = WORD[k][1]
    if pr(.12): return round(R.uniform(lo, hi), ch([1, 1, 2]))
    if hi > 200 and pr(.35): hi = max(lo + 5, hi // 10)
    return ri(lo, hi)


def limit_for(v):
    for _ in range(20):
        r = R.random()
        if r < .35: l = v + ch([-1, 1]) * ri(1, max(2, int(abs(v) * .15) + 1))
        elif r < .7: l = v * ch([.3, .5, .6, .75, 1.3, 1.6, 2, 3]) + ch([-1, 0, 1])
        elif r < .9: l = ch([5, 10, 20, 25, 50, 75, 100, 150, 200, 250, 500, 1000, 2000, 5000]) if abs(v) > 3 else ri(0, 9)
        else: l = v + ri(-9, 9)
        l = int(l) if pr(.9) else round(float(l), 1)
        if l != v and (v < 0 or l >= 0): return l
    return int(v) + 1


def cmp_text(name, v, unit):
    """(instruction, truth) of a numeric comparison"""
    r = R.random(); l = limit_for(v); u = " " + unit if unit and pr(.4) else ""
    if r < .74:
        up = pr(.5); w = pk(UP if up else DOWN); truth = v > l if up else v < l
        s = pk(["Is the {n} {w} {l}{u}?", "Is the {n} {w} {l}{u}?", "The {n} is {w} {l}{u}.", "{n} {w} {l}?", "Check whether the {n} is {w} {l}{u}.", "Is {n} {w} {l}?", "Does the {n} lie {w} {l}{u}?", "True or false: the {n} is {w} {l}{u}.", "Would you say the {n} is {w} {l}{u}?", "The value of {n} is {w} {l}."])
    elif r < .84:
        up = pr(.5); l = v if pr(.3) else l; w = ch(["at least", "no less than", "not below"] if up else ["at most", "no more than", "not above"]); truth = v >= l if up else v <= l
        s = ch(["Is the {n} {w} {l}{u}?", "The {n} is {w} {l}{u}."])
    elif r < .92:
        a, b = sorted((l, limit_for(v))); truth = a <= v <= b; w = ""
        if a == b: b += 1; truth = a <= v <= b
        s = ch(["Is the {n} between %s and %s?", "The {n} is in the range %s to %s.", "Does the {n} lie between %s and %s?"]) % (a, b)
    else:
        l = v if pr(.5) else l; truth = v == l; w = ""
        s = ch(["Is the {n} exactly {l}{u}?", "The {n} is {l}{u}.", "Is the {n} equal to {l}?", "{n} = {l}?"])
    s = s.format(n=name, w=w, l=l, u=u); return s[0].upper() + s[1:], bool(truth)


def yn(s, truth, ids=("check", "answer", "flag")):
    i, q, t = noul(list(ids), [s.replace("[", "(").replace("{", "(")], truth); q["instructions"] = s
    return i, q, t


def pick_q(ids, s, right, others, n=None):
    o = list(dict.fromkeys([str(right)] + [str(x) for x in others]))
    if len(o) < 2: o.append("none")
    i, q, t = choice(list(ids), ["x"], [(x, None) for x in o[: n or ri(2, 7)]], 0, style=.55); q["instructions"] = s
    return i, q, t


def record(n=None, optional=True):
    """(dict, kinds)"""
    o, kd = {}, {}
    n = n or (ri(1, 3) if pr(.35) else ri(3, 10))
    while len(o) < n:
        r = R.random()
        if r < .36: k = ch(list(WORD)); v = number(k); t = "num"
        elif r < .54: k = ch(list(FLAG)); v = pr(.5); t = "flag"
        elif r < .80: k = ch(list(ENUM)); v = ch(ENUM[k]); t = "enum"
        elif r < .90: k = ch(list(NAMED)); v = slot(NAMED[k]); t = "name"
        elif optional: k = ch(OPTIONAL); v = ch([None, None, ""]) if pr(.6) else ch([slot("email"), slot("phone"), slot("word"), slot("city"), str(ri(100, 99999))]); t = "opt"
        else: continue
        if k not in o: o[k] = v; kd[k] = t
    return o, kd


def flag_q(k, v, path=None):
    a, b, s = FLAG[k]; r = R.random()
    if r < .45: return yn(pk(["Is the %s %s?" % (s, a), "The %s is %s." % (s, a), "Is it true that the %s is %s?" % (s, a), "Check whether the %s is %s." % (s, a), "Is it %s?" % a, "%s?" % (a[0].upper() + a[1:])]), v, [k, "is_" + k, "check"])
    if r < .75: return yn(pk(["Is the %s %s?" % (s, b), "The %s is %s." % (s, b), "Is it true that the %s is %s?" % (s, b), "Check whether the %s is %s." % (s, b), "Is it %s?" % b]), not v, ["not_" + k, "check", "answer"])
    if r < .88: return yn(ch(["Is %s true?" % (path or k), "Is %s set?" % nice(k), 'Is the field "%s" true?' % k, "%s is true" % k]), v, [k, "check"])
    return pick_q([k, "state"], ch(["Which fits the %s?" % s, "What is the state of the %s?" % s, "Is the %s %s or %s?" % (s, a, b), "How is the %s?" % s]), a if v else b, [b if v else a])


def field_qs(o, kd, path=lambda k: k):
    qs = []; ks = list(o); R.shuffle(ks)
    for k in ks:
        v = o[k]; t = kd[k]; n = nice(path(k)) if pr(.25) else nice(k)
        if t == "num":
            nm = ch(WORD[k][0]) if pr(.7) else n
            s, tr = cmp_text(nm, v, WORD[k][2]); qs.append(yn(s, tr, [ident(k, 0) + "_check", "limit", "check", "over", "threshold"]))
            if pr(.6): s, tr = cmp_text(nm, v, WORD[k][2]); qs.append(yn(s, tr, [ident(k, 0), "check2", "test"]))
            if pr(.4): qs.append(pick_q([k, "value"], ch(["What is the %s?", "Read the %s.", "Which %s is given?", "Value of the %s", "How much is the %s?"]) % nm, v, [number(k) for _ in range(ri(1, 4))] + [x for z, x in o.items() if kd[z] == "num" and z != k]))
        elif t == "flag": qs.append(flag_q(k, v, path(k)))
        elif t in ("enum", "name"):
            alt = R.sample(ENUM[k], min(len(ENUM[k]), ri(2, 6))) if t == "enum" else [slot(NAMED[k]) for _ in range(ri(1, 4))] + [x for z, x in o.items() if kd[z] == "name"]
            same = [x for z, x in o.items() if kd[z] in ("enum", "name") and z != k and isinstance(x, str)]
            who = ["Who is the %s?", "Name the %s.", "Which person is the %s?"] if t == "name" else ["What is the %s?", "Which %s is it?", "Which %s is given?", "Give the %s.", "Read the field %s.", "What does the record say about the %s?", "Select the %s."]
            qs.append(pick_q([k, "value", "answer"], pk(who) % n, v, alt + (same[:1] if pr(.25) else [])))
            w = v if pr(.5) else ch([x for x in alt if x != v] or same or ["unknown"])
            qs.append(yn(pk(["Is the %s %s?" % (n, w), "The %s is %s." % (n, w), "Is %s the %s?" % (w, n), 'Does %s equal "%s"?' % (n, w), "Is it true that the %s is %s?" % (n, w), "Check whether the %s is %s." % (n, w), "Does the record name %s as %s?" % (w, n)]), w == v, [ident(k, 0) + "_is", "check", "match"]))
        else:
            has = v not in (None, "", [])
            if pr(.6): qs.append(yn(pk(["Is the %s given?" % n, "Is there a %s?" % n, "Has the %s been filled in?" % n, "The %s is known." % n, "Does the record contain a %s?" % n, "Is a %s present?" % n, "We have the %s." % n]), has, ["has_" + k, k, "present"]))
            else: qs.append(yn(pk(["Is the %s missing?" % n, "Is the %s empty?" % n, "The %s is not given." % n, "Is the field %s blank?" % k, "Do we lack the %s?" % n]), not has, ["no_" + k, "missing_" + k, "check"]))
    em = [k for k in o if o[k] in (None, "")]; fu = [k for k in o if k not in em]
    if len(em) == 1 and len(fu) > 1:
        s = pk(["Which field is empty?", "Which value is not filled in?", "What has been left out?", "Which entry has no value?", "What do we still need?", "Which of these is blank?", "Pick the field without a value."]); qs += [pick_q(["missing", "empty_field", "gap"], s, em[0], R.sample(fu, min(len(fu), ri(1, 4))))] * 2
    if len(em) > 1 and pr(.5): qs.append(pick_q(["filled", "present_field"], ch(["Which field is filled in?", "Which of these has a value?"]), ch(fu), R.sample(em, min(len(em), 3))) if fu else qs[0])
    nums = [k for k in o if kd[k] == "num"]
    if len(nums) > 1:
        a, b = R.sample(nums, 2)
        if o[a] != o[b]:
            w = ch(UP); qs.append(yn(ch(["Is the %s %s the %s?" % (nice(a), w, nice(b)), "The %s is %s the %s." % (nice(a), w, nice(b))]), o[a] > o[b], ["compare", "larger"]))
    k = ch(list(o)); other = ch(list(WORD) + list(ENUM) + OPTIONAL)
    x = k if pr(.5) else other; qs.append(yn(ch(["Is there a field called %s?" % x, "Does the record have the key %s?" % x, "The data contain the field %s." % x]), x in o, ["has_key", "field_exists"]))
    return qs


def date(y0=2023, y1=2027): return "%04d-%02d-%02d" % (ri(y0, y1), ri(1, 12), ri(1, 28))


DUE = [("due", "due date"), ("deadline", "deadline"), ("expires", "expiry date"), ("valid_until", "end of validity"), ("delivery_date", "delivery date"), ("departure", "departure"), ("start", "start"), ("pay_by", "payment date"), ("return_by", "return date"), ("best_before", "best-before date"), ("end_date", "end date"), ("appointment", "appointment")]


def dates(o, kd):
    """add two dates; returns questions"""
    k, n = ch(DUE); d = date(); t = d
    while t == d:
        y, m, dd = map(int, d.split("-")); r = R.random()
        t = date() if r < .3 else "%04d-%02d-%02d" % (y, min(12, max(1, m + ri(-2, 2))), ri(1, 28)) if r < .65 else "%04d-%02d-%02d" % (y, m, ri(1, 28))
    now = ch(["today", "now", "current_date", "date", "checked_on"]); o[k] = d; o[now] = t; kd[k] = kd[now] = "date"; past = t > d
    a = pk(["Is the %s in the past?" % n, "Is the %s already over?" % n, "The %s lies before today." % n, "Is today after the %s?" % n, "Have we missed the %s?" % n, "Is it too late for the %s?" % n, "Did the %s pass already?" % n])
    b = pk(["Is the %s still ahead?" % n, "Is the %s in the future?" % n, "The %s is yet to come." % n, "Is there time left before the %s?" % n, "Is today before the %s?" % n])
    return [yn(a, past, ["overdue", "past", "late", "check"])] * 2 + [yn(b, not past, ["in_time", "future", "ahead"])] + [pick_q([k], "What is the %s?" % n, d, [t, date(), date()])]


def say(o):
    """the record as lines"""
    f = lambda v: {True: "yes", False: "no", None: "-", "": "-"}.get(v, v) if not isinstance(v, (int, float)) or isinstance(v, bool) else v
    return "\n".join("%s: %s" % (nice(k) if pr(.5) else k, f(v)) for k, v in o.items())


def d_rec():
    o, kd = record(); qs = []
    if pr(.3): qs += dates(o, kd)
    ks = list(o); R.shuffle(ks); o = {k: o[k] for k in ks}
    r = R.random(); path = lambda k: k; state = o; qs += field_qs(o, kd, path)
    if r < .22:
        w = ch(OUTER); state = {w: o}
        if pr(.5): state[ch(["id", "version", "source", "created"])] = ch([ri(1, 9999), "v2", "import", date()])
    elif r < .32:
        ks = list(o); c = len(ks) // 2; a, b = R.sample(OUTER, 2); state = {a: {k: o[k] for k in ks[:c]}, b: {k: o[k] for k in ks[c:]}}
    elif r < .37: state = {"data": {ch(OUTER): o}, "ok": True}
    elif r < .45: state = say(o)
    elif r < .48: state = json.dumps(o)
    elif r < .52:
        x, xk = record(ri(2, 4)); x = {k: v for k, v in x.items() if k not in o}; state = {ch(OUTER): o, "other": x}
    elif r < .56:
        tags = R.sample(COLORN + ENUM["category"], ri(1, 4)); state = dict(o, tags=tags); w = ch(tags) if pr(.5) else ch(COLORN + ENUM["category"])
        qs += [yn(ch(["Is %s among the tags?" % w, "Does it have the tag %s?" % w, "The tags include %s." % w]), w in tags, ["tag", "has_tag"]), pick_q(["tags", "tag_count"], ch(["How many tags are there?", "Number of tags"]), len(tags), [1, 2, 3, 4, 5])] * 2
    return state, qs


def d_rows():
    n = ri(2, 3) if pr(.4) else ri(2, 6); num = R.sample([k for k in WORD if k != "year"], ch([1, 1, 2])); en = ch(list(ENUM)); fl = ch(list(FLAG)) if pr(.35) else None
    kind = ch(["person", "person", "city", "product", "code"])
    nm = {"person": R.sample(NAMES, n), "city": R.sample(CITY, n), "product": R.sample(PROD, n), "code": ["%s-%d" % (ch("ABCDXZ"), ri(1, 99)) for _ in range(n)]}[kind]
    if len(set(nm)) < n: return d_rows()
    key = {"person": ch(["name", "player", "employee", "student", "user"]), "city": ch(["city", "station", "branch", "place"]), "product": ch(["product", "item", "article"]), "code": ch(["id", "room", "device", "machine"])}[kind]
    who = "Who" if kind == "person" else "Which %s" % nice(key)
    rows = [{key: x} for x in nm]
    for k in num:
        vs = [number(k) for _ in range(n)]
        if len(set(vs)) < n: vs = R.sample(range(1, 100), n)
        for r, v in zip(rows, vs): r[k] = v
    pool = R.sample(ENUM[en], min(len(ENUM[en]), ri(2, 5)))
    if en != key and pr(.6):
        for r in rows: r[en] = ch(pool)
    else: en = None
    if fl:
        for r in rows: r[fl] = pr(.5)
    qs = []; k = ch(num); kn = ch(WORD[k][0]); up = pr(.6); best = (max if up else min)(rows, key=lambda r: r[k])[key]
    w = (ch(["highest", "largest", "biggest", "most"]) if up else ch(["lowest", "smallest", "least"]))
    s = pk(["%s has the %s %s?" % (who, w, kn), "%s shows the %s %s?" % (who, w, kn), "Find the %s with the %s %s." % (nice(key), w, kn), "Name the one with the %s %s." % (w, kn), "%s comes %s in %s?" % (who, "first" if up else "last", kn), "%s leads in %s?" % (who, kn) if up else "%s is at the bottom in %s?" % (who, kn)])
    qs += [pick_q(["top", "best", "extreme", "winner"] if up else ["lowest", "extreme"], s, best, nm, n=8)] * 2
    r = ch(rows); s, tr = cmp_text("%s of %s" % (kn, r[key]), r[k], WORD[k][2]); qs.append(yn(s, tr, ["check", "limit"]))
    qs.append(pick_q([k, "value"], ch(["What is the %s of %s?", "Which %s does %s have?", "Read the %s of %s."]) % (kn, r[key]), r[k], [x[k] for x in rows]))
    x = ch(nm) if pr(.5) else ch({"person": NAMES, "city": CITY, "product": PROD, "code": ["Q-%d" % ri(1, 99)]}[kind])
    qs += [yn(pk(["Is %s among them?" % x, "Does the list contain %s?" % x, "%s appears in the data." % x, "Is there an entry for %s?" % x, "Can %s be found here?" % x, "Do we have a row for %s?" % x]), x in nm, ["listed", "contains", "found"])] * 2
    opts = sorted({n, n + 1, max(1, n - 1), ri(1, 7)})
    qs += [pick_q(["count", "how_many", "size"], pk(["How many %ss are listed?" % nice(key), "How many rows does the table have?", "Number of records", "How long is the list?", "Count the items.", "How many objects does the array hold?"]), n, opts)] * 2
    if len(rows) > 1:
        a, b = R.sample(rows, 2); qs.append(yn(ch(["Does %s have a %s %s than %s?" % (a[key], ch(["higher", "larger"]), kn, b[key]), "%s has more %s than %s." % (a[key], kn, b[key])]), a[k] > b[k], ["compare", "more"]))
    l = limit_for(ch(rows)[k]); c = sum(q[k] > l for q in rows)
    qs.append(yn(ch(["Does any %s have a %s above %s?" % (nice(key), kn, l), "Is at least one %s above %s?" % (kn, l), "Some %s exceeds %s." % (kn, l)]), c > 0, ["any", "exceeded"])); qs.append(yn(ch(["Are all %s values above %s?" % (kn, l), "Does every %s have a %s above %s?" % (nice(key), kn, l)]), c == n, ["all"]))
    if en:
        q = ch(rows); y = ch(pool)
        qs.append(pick_q([en, "answer"], ch(["What is the %s of %s?", "Which %s does %s have?", "%s for %s?"]) % (nice(en), q[key]), q[en], pool)); qs.append(yn(ch(["Is the %s of %s %s?" % (nice(en), q[key], y), "%s has the %s %s." % (q[key], nice(en), y)]), q[en] == y, ["match"]))
        hit = [z[key] for z in rows if z[en] == y]
        if len(hit) == 1: qs.append(pick_q(["which", "who"], ch(["%s has the %s %s?" % (who, nice(en), y), "%s belongs to %s %s?" % (who, nice(en), y)]), hit[0], nm, n=8))
        qs.append(yn(ch(["Is there a %s with the %s %s?" % (nice(key), nice(en), y), "Does the value %s occur?" % y]), any(z[en] == y for z in rows), ["any"])); m = sum(z[en] == y for z in rows)
        qs.append(pick_q(["count"], ch(["How many have the %s %s?" % (nice(en), y), "How often is the %s %s?" % (nice(en), y)]), m, range(0, 6)))
    if fl:
        q = ch(rows); a, b, _ = FLAG[fl]; qs.append(yn(ch(["Is %s %s?" % (q[key], a), "%s is %s." % (q[key], a)]), q[fl], [fl])); qs.append(yn(ch(["Is %s %s?" % (q[key], b)]), not q[fl], ["not_" + fl])); qs.append(yn("Are all of them %s?" % a, all(z[fl] for z in rows), ["all"]))
    r = R.random(); w = ch(["people", "rows", "items", "entries", "list", "results", "data"])
    state = rows if r < .5 else {w: rows} if r < .7 else {x[key]: {a: b for a, b in x.items() if a != key} for x in rows} if r < .8 else {x[key]: x[num[0]] for x in rows} if r < .86 and not en and not fl and len(num) == 1 else "\n".join(", ".join("%s %s" % (nice(a), b) if a != key else str(b) for a, b in x.items()) for x in rows)
    return state, qs


def d_tiny():
    """the smallest steps of record reading: one or two values, one comparison"""
    m = ch([9, 9, 30, 99, 99, 999]); n = ch([1, 1, 2, 2, 3]); ks = R.sample(list(WORD), n) if pr(.6) else R.sample("x y z a b c m n level count value size left right first second old new".split(), n)
    o = {k: ri(0, m) for k in ks}; r = R.random(); k = ch(ks); v = o[k]; nm = ch(WORD[k][0]) if k in WORD and pr(.5) else nice(k); qs = []
    state = o if r < .5 else say(o) if r < .7 else " ".join("The %s is %s." % (nice(a), b) for a, b in o.items()) if r < .85 else {ch(OUTER): o} if r < .93 else ", ".join("%s = %s" % (a, b) for a, b in o.items())
    for _ in range(3):
        l = v
        while l == v: l = ri(0, m)
        up = pr(.5); w = ch(UP if up else DOWN); qs.append(yn(ch(["Is the %s %s %d?", "The %s is %s %d.", "Is %s %s %d?"]) % (nm, w, l), v > l if up else v < l, ["check", "limit"]))
    l = v if pr(.5) else ri(0, m); qs.append(yn(ch(["Is the %s %d?", "The %s is %d.", "Is the %s equal to %d?"]) % (nm, l), v == l, ["equal", "is"]))
    qs += [pick_q(["value", "answer"], ch(["What is the %s?", "Read the %s.", "Value of %s", "How much is the %s?"]) % nm, v, [x for x in o.values() if x != v] + [ri(0, m) for _ in range(ri(1, 3))])] * 2
    if n > 1:
        hi = max(ks, key=o.get); lo = min(ks, key=o.get)
        if len(set(o.values())) == n: qs += [pick_q(["largest"], ch(["Which is the largest?", "Which value is highest?", "Which one is the biggest?"]), nice(hi), [nice(x) for x in ks]), pick_q(["smallest"], ch(["Which is the smallest?", "Which value is lowest?"]), nice(lo), [nice(x) for x in ks])]
        a, b = R.sample(ks, 2)
        if o[a] != o[b]: qs.append(yn(ch(["Is the %s larger than the %s?", "The %s is greater than the %s.", "Is %s bigger than %s?"]) % (nice(a), nice(b)), o[a] > o[b], ["compare"]))
    x = k if pr(.5) else ch(list(WORD)); qs.append(yn(ch(["Is the %s given?", "Is there a value for %s?", "Does it say what the %s is?"]) % nice(x), x in o, ["given"]))
    return state, qs


# ------------------------------------------------------------------------------------------ limits and amounts in text
LIM = [("The {thing} holds {l} {u}", "{v} {u} are waiting", "capacity", "number", ["bus", "hall", "boat", "cinema", "tent", "shelter", "classroom"], ["people", "visitors", "passengers", "children"]), ("The {thing} may carry {l} kg", "the load weighs {v} kg", "permitted load", "load", ["trailer", "shelf", "crane", "cart", "rope"], ["kg"]),
       ("We have {l} euros left", "the {thing} costs {v} euros", "money", "cost", ["repair", "trip", "sofa", "course", "new roof"], ["euros"]), ("The {thing} allows {l} minutes", "it took {v} minutes", "allowed time", "time", ["test", "parking meter", "exam", "talk"], ["minutes"]), ("The {thing} is set to {l} degrees", "the thermometer shows {v} degrees", "set value", "temperature", ["oven", "fridge", "greenhouse", "boiler"], ["degrees"]),
       ("Our goal was {l} {u}", "we sold {v} {u}", "goal", "sales", ["x"], ["tickets", "cars", "books", "cakes"]), ("The recipe needs {l} {u}", "there are {v} {u} in the fridge", "need", "supply", ["x"], ["eggs", "onions", "lemons", "carrots"]), ("The {thing} is {l} m high", "the lorry is {v} m high", "clearance", "height", ["tunnel", "bridge", "gate"], ["m"]),
       ("Members must be at least {l} years old", "{name} is {v}", "minimum age", "age", ["x"], ["years"]), ("The plan includes {l} GB", "{v} GB were used", "included volume", "usage", ["x"], ["GB"])]


def d_limit():
    a, b, ln, vn, things, units = ch(LIM); m = ch([12, 40, 100, 500]); v, l = ri(1, m), ri(1, m)
    if pr(.4): l = max(1, v + ch([-1, 1]) * ri(1, max(2, v // 4)))
    if l == v: l += ri(1, 3)
    kw = dict(thing=ch(things), u=ch(units), v=v, l=l); x, y = fill(a, **kw), fill(b, **kw); y2 = y[0].upper() + y[1:]
    t = ch(["%s. %s." % (x, y2), "%s and %s." % (x, y), "%s, but %s." % (x, y), "%s. %s." % (y2, x), "%s; %s." % (x, y)]); over = v > l; u = kw["u"]
    qs = [yn(pk(["Is the %s larger than the %s?" % (vn, ln), "The %s exceeds the %s." % (vn, ln), "Is the %s above the %s?" % (vn, ln), "Does the %s go beyond the %s?" % (vn, ln), "Is the %s greater than the %s?" % (vn, ln)]), over, ["exceeds", "over", "check"]),
          yn(pk(["Is the %s below the %s?" % (vn, ln), "The %s stays under the %s." % (vn, ln), "Is the %s smaller than the %s?" % (vn, ln), "Is the %s within the %s?" % (vn, ln)]), not over, ["within", "under", "check"]),
          pick_q(["value", vn], "What is the %s?" % vn, v, [l, ri(1, m), ri(1, m)]), pick_q(["limit", "value"], "What is the %s?" % ln, l, [v, ri(1, m), ri(1, m)]), pick_q(["larger"], ch(["Which is larger?", "Which number is higher?"]), vn if over else ln, [ln if over else vn])]
    s, tr = cmp_text(vn, v, ""); qs.append(yn(s, tr)); s, tr = cmp_text(ln, l, ""); qs.append(yn(s, tr))
    if ln == "capacity": qs += [yn(ch(["Is there room for everybody?", "Do they all fit in?", "Is the %s big enough?" % kw["thing"]]), not over, ["fits"]), yn(ch(["Is the %s overcrowded?" % kw["thing"], "Will somebody be left behind?"]), over, ["too_many"])]
    if ln == "money": qs.append(yn(ch(["Can we afford it?", "Is the money enough?"]), not over, ["affordable"]))
    if ln == "goal": qs.append(yn(ch(["Was the goal reached?", "Did we reach the target?"]), v >= l, ["reached"]))
    if ln == "need": qs.append(yn(ch(["Are there enough %s?" % u, "Is the supply sufficient?"]), v >= l, ["enough"]))
    return wrap_text(t), qs


# ------------------------------------------------------------------------------------------ categories of things
CATS = {"animal": "fox hedgehog sheep cow duck goose owl whale dolphin spider frog squirrel camel monkey elephant turtle pigeon lion bear mouse".split(), "vehicle": "tractor bicycle tram lorry scooter helicopter canoe motorbike ferry van submarine ambulance".split(), "fruit": "plum peach orange lemon cherry apple pear melon fig strawberry".split(),
        "vegetable": "cabbage carrot leek spinach cucumber pumpkin onion radish bean".split(), "musical instrument": "trumpet cello harp flute accordion drum piano violin guitar".split(), "piece of clothing": "coat scarf sweater glove skirt sock hat apron tie".split(), "tool": "hammer saw screwdriver drill pliers axe shovel wrench".split(), "piece of furniture": "sofa wardrobe shelf stool bench desk armchair cupboard".split(),
        "profession": "baker plumber pilot nurse judge farmer painter butcher tailor fisherman teacher".split(), "body part": "elbow knee shoulder ankle finger neck ear toe".split(), "drink": "lemonade coffee tea beer wine milk juice cocoa".split(), "building": "castle church factory hospital library museum lighthouse barn stable".split(), "flower": "tulip daisy lily violet orchid sunflower poppy".split(), "metal": "iron copper silver gold lead tin zinc".split(),
        "sport": "tennis boxing rowing hockey fencing judo volleyball cycling".split(), "country": "Norway Japan Brazil Egypt Canada Kenya Peru India Iceland Portugal".split(), "colour": COLORN, "weekday": DAYS, "month": MONTHS, "city": CITY}
CATT = ["{name} [saw|noticed|drew] {a} yesterday.", "There was {a} [in the yard|behind the house|at the market].", "We talked about {a} for hours.", "In the picture you can see {a}.", "{name} dreamed of {a}.", "My uncle in {city} has {a}.", "Nobody expected {a} there.", "They sent me {a} by mistake.", "On {day} {name} came with {a}.", "The old man told a story about {a}."]


def art(w): return w if w in COLORN + DAYS + MONTHS + CITY + CATS["country"] or w in CATS["sport"] + CATS["metal"] + CATS["drink"] else ("an " if w[0] in "aeiou" else "a ") + w


def d_cat():
    base = [c for c in CATS if c not in ("colour", "weekday", "month", "city", "country", "sport", "metal", "drink")]
    k = ch([1, 1, 2, 3]); cs = R.sample(base, k); it = [ch(CATS[c]) for c in cs]
    t = " ".join(fill(pk(CATT), a=art(x)) for x in it); qs = []
    if pr(.3):
        c2 = ch(["sport", "metal", "drink", "country"]); x = ch(CATS[c2]); t += " " + fill({"sport": "{name} likes %s.", "metal": "It is made of %s.", "drink": "They drank %s.", "country": "It comes from %s."}[c2]) % x; cs.append(c2); it.append(x)
    low = t.lower(); has = lambda c: any(re.search(r"\b%s\b" % re.escape(x.lower()), low) for x in CATS[c])
    for c in [ch(cs)] + R.sample(list(CATS), 3):
        tr = has(c); a = "an" if c[0] in "aeiou" else "a"; qs.append(yn(pk(["Is %s %s mentioned?" % (a, c), "Does the text mention %s %s?" % (a, c), "The text names %s %s." % (a, c), "Is there %s %s in the text?" % (a, c), "Does %s %s occur?" % (a, c), "Can you find %s %s in it?" % (a, c)]), tr, ["has_" + ident(c, 0), ident(c, 0), "mentioned"]))
    c, x = ch(list(zip(cs, it))); qs.append(pick_q([ident(c, 0), "which"], ch(["Which %s is mentioned?", "Name the %s.", "What %s occurs in the text?"]) % c, x, [z for z in R.sample(CATS[c], min(len(CATS[c]), ri(2, 5)))]))
    y = x if pr(.5) else ch(CATS[ch(cs)]); qs.append(yn(pk(["Does the text mention %s?" % art(y), "Is %s mentioned?" % art(y), "The text is about %s." % art(y), "Is there any word about %s?" % art(y), "Does %s come up?" % art(y)]), bool(re.search(r"\b%s\b" % re.escape(y.lower()), low)), ["mentions", "mentioned"]))
    qs.append(pick_q(["kind", "category"], ch(["What kind of thing is the %s?", "To which group does the word %s belong?", "The %s is a ..."]) % x, c, R.sample([z for z in CATS if z != c and x not in CATS[z]], ri(1, 5))))
    return wrap_text(t), qs


# ------------------------------------------------------------------------------------------ reading
VERB = [("bought", "buy"), ("sold", "sell"), ("painted", "paint"), ("carried", "carry"), ("lost", "lose"), ("found", "find"), ("hid", "hide"), ("counted", "count"), ("repaired", "repair"), ("borrowed", "borrow"), ("packed", "pack"), ("threw away", "throw away"), ("washed", "wash"), ("collected", "collect"), ("delivered", "deliver")]
THING = "apples books tickets chairs eggs cookies pencils shirts plants bottles boxes coins lamps oranges stamps cups keys candles baskets ropes letters bricks umbrellas pillows jars".split()


def d_read():
    k = ch([1, 1, 2, 2, 3]); who = R.sample(NAMES, k); th = R.sample(THING, min(len(THING), 2 * k)); pl = R.sample(CITY, k); ev = []
    for i in range(k):
        v = ch(VERB); e = dict(who=who[i], v=v[0], b=v[1], what=th[2 * i], n=ri(2, 60), where=pl[i], when=ch(DAYS), two=None)
        f = ["{who} {v} {n} {what} in {where}.", "On {when}, {who} {v} {n} {what}.", "In {where} {who} {v} {n} {what} on {when}.", "{who} from {where} {v} {n} {what} last {when}.", "It was {who} who {v} the {n} {what} in {where}.", "{n} {what}: that is what {who} {v} on {when} in {where}."]
        t = pk(f)
        if pr(.3): e["two"] = (ri(2, 60), th[2 * i + 1]); t = t.replace("{what}", "{what} and %d %s" % e["two"]) if "the {n}" not in t else t
        e["t"] = t.format(**e); e["has"] = {x for x in ("where", "when") if "{%s}" % x in t}; e["two"] = e["two"] if e["two"] and "%d %s" % e["two"] in e["t"] else None; ev.append(e)
    if pr(.25): ev2 = ev + []
    t = " ".join(e["t"] for e in ev); e = ch(ev); qs = []; every = lambda key, pool: [x[key] for x in ev] + R.sample(pool, 3)
    qs.append(pick_q(["who", "person"], pk(["Who %s the %s?", "Which person %s the %s?", "Name the one who %s the %s.", "By whom: %s %s?"]) % (e["v"], e["what"]), e["who"], every("who", NAMES)))
    qs.append(pick_q(["what", "thing"], pk(["What did %s %s?", "Which things did %s %s?", "%s: what did they %s?"]) % (e["who"], e["b"]), e["what"], every("what", THING)))
    qs.append(pick_q(["number", "how_many"], pk(["How many %s did %s %s?" % (e["what"], e["who"], e["b"]), "Number of %s" % e["what"], "How many %s were there?" % e["what"], "Count of the %s" % e["what"]]), e["n"], [x["n"] for x in ev] + ([e["two"][0]] if e["two"] else []) + [ri(2, 60), ri(2, 60)]))
    if "where" in e["has"]: qs.append(pick_q(["where", "city"], ch(["Where did %s %s the %s?" % (e["who"], e["b"], e["what"]), "In which city was %s?" % e["who"], "Place where %s was" % e["who"]]), e["where"], every("where", CITY)))
    if "when" in e["has"]: qs.append(pick_q(["when", "day"], ch(["When did %s %s the %s?" % (e["who"], e["b"], e["what"]), "On which day did %s do it?" % e["who"]]), e["when"], R.sample(DAYS, 4)))
    a = ch(ev); b = ch(ev); w = ch(NAMES) if pr(.3) else b["who"]
    qs.append(yn(pk(["Did %s %s %s?" % (w, a["b"], a["what"]), "%s %s %s." % (w, a["v"], a["what"]), "Is it true that %s %s %s?" % (w, a["v"], a["what"]), "Was it %s who %s the %s?" % (w, a["v"], a["what"])]), w == a["who"], ["did", "check"]))
    s, tr = cmp_text("number of " + e["what"], e["n"], ""); qs.append(yn(s, tr)); l = limit_for(e["n"]); qs.append(yn(ch(["Did %s %s more than %s %s?" % (e["who"], e["b"], l, e["what"]), "%s %s over %s %s." % (e["who"], e["v"], l, e["what"])]), e["n"] > l))
    x = e["what"] if pr(.5) else ch(THING); qs.append(yn(pk(["Does the text mention %s?" % x, "Are %s mentioned?" % x, "The text says something about %s." % x, "Do %s occur in the text?" % x]), x in t, ["mentions"]))
    c = e["where"] if pr(.5) else ch(CITY); qs.append(yn(ch(["Does the text mention %s?" % c, "Is %s the place?" % c, "Is %s named?" % c]), c in t, ["mentions_" + c.lower()]))
    if len(ev) > 1: qs.append(yn(ch(["Did %s and %s do the same thing?" % (ev[0]["who"], ev[1]["who"])]), ev[0]["v"] == ev[1]["v"] and ev[0]["what"] == ev[1]["what"])) if pr(.2) else qs.append(pick_q(["more"], ch(["Who had more things?", "Who %s the larger number?" % "handled"]), (ev[0] if ev[0]["n"] > ev[1]["n"] else ev[1])["who"], [ev[0]["who"], ev[1]["who"]])) if ev[0]["n"] != ev[1]["n"] and k == 2 and not ev[0]["two"] and not ev[1]["two"] else None
    return wrap_text(t), [q for q in qs if q]


# ------------------------------------------------------------------------------------------ scores
SCALES = {  # name -> (questions, [(level names, sentences)] from low to high)
 "urgency": (["How urgent is it?", "Rate the urgency.", "How fast must we react?", "Urgency of the request", "How pressing is the matter?", "How soon is an answer needed?"], [
   (["not urgent", "can wait", "no hurry", "low", "whenever"], ["No hurry at all.", "Whenever you find the time.", "It can wait for months.", "Sometime this year would be fine.", "Just an idea for later.", "Not important right now."]),
   (["a little urgent", "within some days", "normal", "medium", "this week"], ["I would like an answer in the next days.", "Please get to it this week.", "It should be settled before the weekend.", "By {day} would be good.", "I need it in a few days."]),
   (["urgent", "today", "high", "soon"], ["I need it before the end of the day.", "Please do it today.", "It must be ready tonight.", "Tomorrow morning is the latest."]),
   (["extremely urgent", "at once", "critical", "immediately", "emergency"], ["Help, right now!", "Everything has stopped, act this second!", "We lose thousands every minute!", "Nobody can work, this is an emergency!", "Drop everything and come at once!"])]),
 "satisfaction": (["How satisfied is the writer?", "Rate the satisfaction.", "How happy is the customer?", "Degree of satisfaction", "How content does the person sound?", "How did they like it?"], [
   (["very unhappy", "terrible", "furious", "very dissatisfied"], ["A disaster from start to end.", "The worst ever, I am furious.", "Dreadful, I want to forget it.", "Utterly useless."]),
   (["unhappy", "bad", "dissatisfied"], ["Not good, I am let down.", "It has too many faults.", "Rather poor.", "I would not choose it again."]),
   (["neutral", "okay", "mixed", "so-so"], ["It is all right, nothing more.", "Average.", "Some things good, some bad.", "Acceptable, I suppose."]),
   (["happy", "good", "satisfied"], ["Good, I like it.", "Solid and pleasant.", "I am content.", "A nice choice."]),
   (["very happy", "excellent", "delighted", "very satisfied"], ["Absolutely marvellous!", "I could not be happier!", "Simply the best!", "Ten out of ten, a dream!", "Breathtakingly good!"])]),
 "severity": (["How severe is it?", "How bad is the problem?", "Rate the severity.", "How serious is the incident?", "Severity level", "How dangerous is the situation?"], [
   (["none", "harmless", "no problem", "fine"], ["All tests passed, nothing to report.", "Everything runs as it should.", "Routine check finished without findings.", "No faults seen."]),
   (["minor", "small", "low"], ["One lamp in the corridor flickers.", "A typo on the start page.", "The door squeaks.", "A scratch on the lid."]),
   (["major", "serious", "considerable", "medium"], ["The pump lost a third of its power.", "Some customers cannot pay.", "One of two engines failed.", "The roof lets in water."]),
   (["critical", "disaster", "extreme", "very high"], ["The whole plant is on fire.", "All data are lost and there is no copy.", "The dam has burst.", "Gas is leaking and people are trapped."])]),
 "risk": (["How risky is it?", "Rate the risk.", "Risk level", "How likely is harm?"], [(["no risk", "safe", "low"], ["The ladder is tied and two people hold it.", "All brakes were renewed yesterday.", "The dog is old and gentle."]), (["some risk", "medium", "moderate"], ["The path is wet in places.", "One of the ropes is worn.", "The ice is thin near the shore."]), (["high risk", "dangerous", "high"], ["He climbs without a rope in a storm.", "They drive at night without lights.", "The child plays with matches next to petrol."])]),
 "effort": (["How much work is it?", "Estimate the effort.", "How hard is the task?", "Difficulty"], [(["easy", "little work", "trivial", "small"], ["Just change one word.", "Press a button and you are done.", "It takes a minute."]), (["moderate", "some work", "medium"], ["It will keep us busy for an afternoon.", "A few days of work for one person.", "You need some practice for it."]), (["hard", "a lot of work", "huge", "very difficult"], ["It will take ten people two years.", "Nobody has ever managed it.", "Everything has to be built anew from scratch."])]),
 "confidence": (["How sure is the speaker?", "Rate the certainty.", "How certain does the writer sound?"], [(["unsure", "not certain", "doubtful"], ["I have no idea, maybe it was him.", "Perhaps, I really can't tell.", "It could be anything."]), (["fairly sure", "rather certain", "probable"], ["I think it was {name}.", "Most likely it is in {city}.", "As far as I remember it was {day}."]), (["completely sure", "certain", "no doubt"], ["I saw it with my own eyes.", "There is no doubt whatsoever.", "I would bet my house on it."])]),
 "formality": (["How formal is the message?", "Tone of the text", "Rate the formality."], [(["casual", "informal", "relaxed"], ["hey dude, whats up lol", "yo, gonna grab pizza, u in?", "haha no way, cya later"]), (["neutral", "normal"], ["Hi {name}, are you coming on {day}?", "Thanks, see you at {time}.", "I will bring the {obj}."]), (["formal", "official", "very polite"], ["Dear Sir or Madam, we hereby confirm receipt of your letter.", "We respectfully request your attendance on {day}.", "Please accept the assurance of our highest esteem."])]),
 "crowd": (["How full is it?", "How crowded is the place?", "Rate the number of visitors."], [(["empty", "deserted", "nobody"], ["Not a soul in the hall.", "I was the only guest."]), (["half full", "some people"], ["About half of the seats were taken.", "A few dozen people came."]), (["full", "packed", "overcrowded"], ["People stood on the stairs because all seats were gone.", "You could not move an inch in the crowd."])]),
 "progress": (["How far is the work?", "State of the project", "How much is done?"], [(["not started", "nothing done"], ["We have not begun yet.", "The plans are still in the drawer."]), (["in progress", "half done", "under way"], ["Half of the walls are up.", "We are in the middle of it."]), (["almost done", "nearly finished"], ["Only the paint is missing.", "Two last screws and we are there."]), (["finished", "done", "complete"], ["It is all finished since {day}.", "The keys were handed over, everything is complete."])]),
}


def d_scale():
    n = ch(list(SCALES)); qs_, lv = SCALES[n]; m = len(lv); i = ri(0, m - 1); t = fill(pk(lv[i][1])); parts = [t]
    if pr(.35) and len(lv[i][1]) > 2: parts.append(fill(pk(lv[i][1])))
    if pr(.4): parts.insert(ri(0, len(parts)), fill(ch(FILL + ["It is about the {prod}.", "This concerns the office in {city}."])))
    t = " ".join(dict.fromkeys(parts)); names = lambda idx: [ch(lv[j][0]) for j in idx]
    out = []
    for _ in range(2):
        keep = list(range(m)) if pr(.6) or m < 4 else sorted(R.sample(range(m), ri(2, m - 1)))
        d = [abs(j - i) for j in keep]; mn = min(d); p = [1. if x == mn else .12 if x == mn + 1 and mn > 0 else 0. for x in d]
        if mn == 0: p = [.9 if x == 0 else .06 if x == 1 else .0 for x in d]
        s = sum(p); i_, q, tg = score([n, "level", "rating", "grade"], ["x"], [[x] for x in names(keep)], [x / s for x in p]); q["instructions"] = pk(qs_); out.append((i_, q, tg))
    if pr(.3): out.append(pick_q([n, "level"], pk(qs_), ch(lv[i][0]), [ch(lv[j][0]) for j in range(m) if j != i]))
    j = i if pr(.5) else ch([x for x in range(m) if x != i]); w = ch(lv[j][0])
    if n in ("urgency", "satisfaction", "severity") and w not in ("today", "soon", "at once", "whenever", "none", "small", "this week", "within some days", "low", "high", "medium", "fine"):
        out.append(yn(ch(["Would you call it %s?", "Is it %s?", "It is %s."]) % w, .85 if abs(i - j) == 1 and min(i, j) >= m - 2 and False else float(i == j) if abs(i - j) != 1 else .15, [ident(w, 0), "check"]))
    if n == "urgency": out.append(yn(pk(["Must somebody act fast?", "Is quick action needed?", "Is there time pressure?", "Should it be handled before everything else?"]), [.02, .15, .9, 1.][i], ["fast", "rush"]))
    if n == "severity": out.append(yn(pk(["Is there a problem at all?", "Does something need fixing?", "Has something gone wrong?", "Is everything in order?"]), 0. if i == 0 else 1., ["problem", "issue"]) if pr(.7) else yn(ch(["Is everything in order?", "Is all well?", "Nothing is wrong."]), 1. if i == 0 else 0., ["fine"]))
    if n == "severity": out.append(yn(ch(["Should somebody be sent at once?", "Is it worth raising the alarm?", "Does it call for an immediate reaction?"]), [0., .05, .7, 1.][i], ["alarm"]))
    if n == "satisfaction": out.append(yn(pk(["Is the person content?", "Does the writer sound pleased?", "Did they have a good experience?", "Would they choose it again?", "Is the verdict favourable?"]), [0., .04, .5, .95, 1.][i], ["content", "good"])); out.append(yn(pk(["Is the person dissatisfied?", "Does the writer complain?", "Was it a bad experience?", "Is the verdict negative?"]), [1., .95, .4, .04, 0.][i], ["bad", "complains"]))
    return wrap_text(t), out


# ------------------------------------------------------------------------------------------ label questions in yes/no form on the first generation's texts
MAILYN = {"spam": ["try to sell something to strangers", "send unwanted advertising", "promise easy money or a prize"], "phishing": ["try to get passwords or card numbers", "try to cheat the reader", "pretend to be somebody else"], "meeting": ["talk about a meeting", "want to set a date"], "invoice": ["send or remind of a bill", "talk about a payment that is due"], "newsletter": ["send regular news to subscribers"], "application": ["apply for a job", "look for work"], "personal": ["write to a friend or relative", "send a private message"], "order": ["inform about an order"]}
SUPYN = {"billing": ["have a question about a payment", "complain about a charge", "write about an invoice or a card"], "technical": ["report a technical problem", "describe something that does not work", "have trouble with the software"], "account": ["need help with the account", "write about a password or login"], "shipping": ["ask about a delivery", "write about a parcel"], "sales": ["ask about prices or plans", "think about buying something", "want advice before a purchase"], "returns": ["want to send something back", "want to swap a product"], "cancellation": ["want to cancel", "want to end a contract"], "feedback": ["make a suggestion", "have an idea for the product"]}
PURYN = {"question": ["ask something", "want to know something"], "complaint": ["complain", "be unhappy with something"], "praise": ["praise somebody", "give a compliment"], "request": ["want somebody to do something"], "announcement": ["announce something", "give information"], "apology": ["apologise", "be sorry"], "invitation": ["invite somebody"], "thanks": ["thank somebody"]}
EMOYN = {"joy": ["be happy", "feel joy"], "sadness": ["be sad", "grieve"], "anger": ["be angry", "be furious"], "fear": ["be afraid", "worry"], "surprise": ["be surprised", "be taken by surprise"], "disgust": ["feel disgust", "find something revolting"], "love": ["feel love", "be fond of somebody"], "gratitude": ["be grateful"], "boredom": ["be bored"]}
TOOLYN = {"calculator": ["want a calculation"], "web_search": ["want something looked up"], "calendar": ["want to see or change appointments"], "send_email": ["want an email sent"], "weather": ["ask about the weather"], "translate": ["want a translation"], "play_music": ["want to hear music"], "run_sql": ["want data from a database"], "set_timer": ["want an alarm or timer"], "read_file": ["want a file opened"], "turn_on_light": ["want light"]}
MODYN = {"insult": ["insult somebody", "be rude"], "threat": ["threaten somebody", "announce violence"], "pii": ["reveal private data", "publish contact details"], "promo": ["advertise something", "promote a shop or channel"], "ok": ["keep to the rules", "write something harmless"]}
OLD = [(gen.MAIL, MAILYN, "sender writer author", None), ({k: v[1] for k, v in gen.SUP.items()}, SUPYN, "customer writer user client", None), ({k: v[1] for k, v in gen.PURP.items()}, PURYN, "writer author speaker", {("request", "question"), ("question", "request"), ("praise", "thanks"), ("thanks", "praise"), ("invitation", "question"), ("invitation", "request"), ("complaint", "announcement"), ("announcement", "complaint"), ("invitation", "announcement"), ("praise", "announcement")}),
       ({k: v[1] for k, v in gen.EMO.items()}, EMOYN, "writer author speaker person", {("love", "joy"), ("joy", "love"), ("gratitude", "joy"), ("gratitude", "love"), ("love", "gratitude"), ("joy", "surprise"), ("surprise", "joy"), ("disgust", "anger"), ("anger", "disgust")}), ({k: v[1] for k, v in gen.TOOLS.items()}, TOOLYN, "user person customer", {("web_search", "run_sql"), ("run_sql", "web_search")}), (gen.MODN, MODYN, "writer author poster", {("threat", "insult"), ("pii", "promo")})]


def d_old():
    src, yn_, subj, skip = ch(OLD); k = ch([x for x in src if x in yn_]); t = fill(pk(src[k])); S = lambda: ch(subj.split()); qs = []
    qs += [ask(pk(yn_[k]), S(), True) for _ in range(2)]
    for x in R.sample(list(yn_), min(3, len(yn_))):
        if x != k and not (skip and (k, x) in skip): qs.append(ask(pk(yn_[x]), S(), False))
    o = [x for x in yn_ if x != k and not (skip and (k, x) in skip)]; o = R.sample(o, min(len(o), ri(1, 6)))
    qs.append(choice(["what", "intent", "kind"], [ch(["What does the {S} do?", "Which fits the {S}?", "What is going on here?", "Which statement is right?"]).format(S=S())], [(facts.third(ch(yn_[x])), None) for x in [k] + o], 0, style=.55))
    return wrap_text(t), qs


# ------------------------------------------------------------------------------------------ pictures
DIG = {0: "abcdef", 1: "bc", 2: "abged", 3: "abgcd", 4: "fgbc", 5: "afgcd", 6: "afgedc", 7: "abc", 8: "abcdefg", 9: "abcdfg"}
STROKE = {0: [[(.5, 0), (.15, .2), (.15, .8), (.5, 1), (.85, .8), (.85, .2), (.5, 0)]], 1: [[(.25, .25), (.55, 0), (.55, 1)]], 2: [[(.1, .2), (.5, 0), (.9, .25), (.1, 1), (.95, 1)]], 3: [[(.1, .1), (.6, 0), (.85, .25), (.45, .48), (.9, .75), (.55, 1), (.1, .9)]], 4: [[(.7, 1), (.7, 0), (.1, .7), (.95, .7)]], 5: [[(.9, 0), (.2, 0), (.15, .45), (.6, .4), (.9, .7), (.55, 1), (.1, .92)]], 6: [[(.8, 0), (.3, .4), (.15, .75), (.5, 1), (.85, .75), (.5, .5), (.18, .7)]], 7: [[(.05, 0), (.95, 0), (.4, 1)]], 8: [[(.5, 0), (.15, .22), (.5, .46), (.9, .75), (.5, 1), (.1, .75), (.5, .46), (.85, .22), (.5, 0)]], 9: [[(.82, .3), (.5, .5), (.15, .25), (.5, 0), (.85, .25), (.7, .6), (.3, 1)]]}


def digit(dr, v, x, y, w, h, c, th):
    from PIL import ImageFont
    r = R.random()
    if r < .35:
        try: ft = ImageFont.load_default(size=h)
        except TypeError: ft = ImageFont.load_default()
        b = dr.textbbox((0, 0), str(v), font=ft); dr.text((x - b[0], y - b[1]), str(v), fill=c, font=ft, stroke_width=ch([0, 0, 1, 2]), stroke_fill=c)
    elif r < .55:
        p = {"a": (0, 0, 1, 0), "b": (1, 0, 1, .5), "c": (1, .5, 1, 1), "d": (0, 1, 1, 1), "e": (0, .5, 0, 1), "f": (0, 0, 0, .5), "g": (0, .5, 1, .5)}
        for k in DIG[v]: a = p[k]; dr.line([x + a[0] * w, y + a[1] * h, x + a[2] * w, y + a[3] * h], fill=c, width=th)
    else:
        for l in STROKE[v]: dr.line([(x + (px + R.uniform(-.03, .03)) * w, y + (py + R.uniform(-.03, .03)) * h) for px, py in l], fill=c, width=th, joint="curve")


SIZES = [(w, h) for w in (128, 160, 192) for h in (128, 160, 192)]
PSTATE = ["What do you see?", "", "Look at it.", "A drawing.", {"image": "a.png"}, "See attachment.", "photo", "Describe.", {"file": "x.png", "pages": 1}, "Figure", None, "Please have a look at this picture.", [], "scan 12", "Attached."]


def d_pic():
    from PIL import Image, ImageDraw
    W, H = ch(SIZES); bg = ch(["white"] * 5 + ["gray", "black", "yellow", "cyan", "pink", "blue", "green"]); c0 = jit(RGB[bg])
    if bg == "white" and pr(.4): c0 = tuple(ri(225, 255) for _ in range(3))
    im = Image.new("RGB", (W, H), c0); dr = gen.Ink(im); cols = [c for c in RGB if c != bg and (bg, c) not in (("gray", "brown"), ("black", "brown"), ("cyan", "blue"), ("yellow", "orange"), ("pink", "red"), ("white", "pink"))]
    far = lambda c: [x for x in cols if x != c]
    kind = ch(["one"] * 7 + ["count"] * 5 + ["two"] * 3 + ["digit"] * 4 + ["bars"] * 4 + ["grid", "line"]); qs = []; state = ch(PSTATE)
    thing = ch(["object", "shape", "figure", "thing"]); SH = gen.SHAPES

    def colour_q(c, s, ids=("color", "colour")): return pick_q(ids, s, c, R.sample(far(c), min(len(far(c)), ri(1, 5))))

    def yes(s, t, ids=("check", "answer")): return yn(s, t, ids)

    def place(n, r):
        pts = []
        for _ in range(500):
            x, y = ri(r + 2, W - r - 2), ri(r + 2, H - r - 2)
            if all(math.hypot(x - a, y - b) > 2.25 * r for a, b in pts): pts.append((x, y))
            if len(pts) == n: break
        return pts

    def row(n, r):
        m = W / n
        if m < 2 * r + 2: return place(n, r)
        y = H / 2 + ri(-12, 12); return [(m * (i + .5), y + ri(-6, 6)) for i in range(n)]
    plural = lambda s: {"cross": "crosses", "box": "boxes"}.get(s, s + "s")
    if kind in ("one", "count"):
        s, c = ch(SH), ch(cols); n = 1 if kind == "one" else ri(1, 7); r = ri(16, min(W, H) // 2 - 6) if n == 1 and kind == "one" else ri(9, 18)
        pts = row(n, r) if pr(.4) else place(n, r); n = len(pts); fill_ = not (pr(.15) and s in ("circle", "square", "rectangle"))
        dr.count = n
        for x, y in pts:
            dr.mark(c, s)
            if fill_: shape(dr, s, x, y, r, jit(RGB[c]))
            else: (dr.ellipse if s == "circle" else dr.rectangle)([x - r, y - r * (1 if s != "rectangle" else .5), x + r, y + r * (1 if s != "rectangle" else .5)], outline=jit(RGB[c]), width=ri(3, 7))
        qs += [colour_q(c, pk(["What colour is the %s?" % thing, "Which colour do you see?", "Name the colour of the %s." % thing, "In what colour is it drawn?", "The %s is ..." % thing, "Colour?"])), pick_q(["shape", "form"], pk(["What is drawn here?", "Name the %s." % thing, "Which form do you see?", "What kind of %s is it?" % thing, "Identify the figure.", "Shape?"]), s, R.sample(SH, ri(2, 6)))]
        x = c if pr(.5) else ch(cols); y = s if pr(.5) else ch(SH); P = n > 1
        qs.append(yes(pk(["Is it %s?" % x, "Do you see something %s?" % x, "The %s is %s." % (thing, x), "Is the colour %s?" % x, "Is %s the colour of the %s?" % (x, thing), ("Are they %s?" if P else "Is that %s?") % x]), x == c, [x, "is_" + x]))
        qs.append(yes(pk(["Do you see a %s?" % y, "Is a %s drawn?" % y, "The figure is a %s." % y, "Does it show a %s?" % y, "Is there any %s?" % y, ("Are they %s?" % plural(y)) if P else "Is that a %s?" % y]), y == s, [y, "is_" + y]))
        if kind == "count":
            what = ch([plural(s), plural(thing), plural(s), "of them"]); o = sorted({n, n + 1, max(1, n - 1), ri(1, 7)}); w7 = "one two three four five six seven".split()
            for _ in range(2): qs.append(pick_q(["count", "number", "how_many"], pk(["How many %s do you see?" % what, "Number of %s?" % what, "How many %s are drawn?" % what, "Count them.", "How often does it appear?"]), n if pr(.8) else w7[n - 1], o))
            i_, q, t = score(["count", "amount"], ["x"], [[x] for x in w7], onehot(n - 1, 7)); q["instructions"] = pk(["How many %s do you see?" % what, "Count the %s." % what, "Number?", "How many are there?"]); qs.append((i_, q, t))
            if qs[-2][1]["type"] == "choice" and n and any(k in w7 for k in qs[-2][1]["criteria"]): qs[-2] = pick_q(["count"], "Give the number as a word.", w7[n - 1], R.sample(w7, 4))
            if any(k in w7 for k in qs[-3][1]["criteria"]): qs[-3] = pick_q(["count"], "Give the number as a word.", w7[n - 1], R.sample(w7, 4))
            l = ri(1, 7); qs.append(yes(ch(["Are there more than %d?" % l, "More than %d %s?" % (l, plural(thing))]), n > l, ["more"])); l = n if pr(.5) else ri(1, 7); qs.append(yes(ch(["Are there exactly %d?" % l, "Do you see %d %s?" % (l, plural(thing))]), n == l, ["exact"]))
        else:
            px, py = pts[0]
            if r < min(W, H) // 4:
                if abs(px - W / 2) > W / 7: qs.append(pick_q(["side", "where"], pk(["On which side is it?", "Is it left or right?", "Where is the %s?" % thing, "Position of the %s" % thing]), "left" if px < W / 2 else "right", ["left", "right"])); qs.append(yes(ch(["Is it on the left?", "The %s is on the left side." % thing]), px < W / 2))
                if abs(py - H / 2) > H / 7: qs.append(pick_q(["height", "where"], pk(["Is it at the top or at the bottom?", "Where is the %s, top or bottom?" % thing, "Vertical position"]), "top" if py < H / 2 else "bottom", ["top", "bottom"]))
            qs.append(pick_q(["size"], ch(["Is the %s small or large?" % thing, "Size of the %s" % thing]), "large" if r > min(W, H) * .3 else "small", ["large", "small"])) if r > min(W, H) * .36 or r < min(W, H) * .2 else None
        if pr(.35): qs.append(pick_q(["background"], ch(["Colour behind the %s" % thing, "What is the background colour?", "On what colour is it drawn?"]), bg, R.sample([x for x in RGB if x != bg], ri(1, 4))))
    elif kind == "two":
        n = ri(2, 4); r = ri(12, 22); pts = place(n, r); n = len(pts); cs = R.sample(cols, n); ss = [ch(SH) for _ in range(n)]
        dr.count = n
        for (x, y), s, c in zip(pts, ss, cs): shape(dr.mark(c, s), s, x, y, r, jit(RGB[c]))
        i = ri(0, n - 1); s, c = ss[i], cs[i]
        if ss.count(s) == 1: qs += [colour_q(c, pk(["What colour has the %s?" % s, "The %s is ..." % s, "Which colour is the %s?" % s]))] * 2
        qs += [pick_q(["shape"], pk(["What shape is the %s one?" % c, "Which figure is %s?" % c, "The %s thing is a ..." % c]), s, R.sample(SH, ri(2, 5)))] * 2
        x = c if pr(.5) else ch(cols); qs.append(yes(pk(["Is anything %s?" % x, "Do you see %s?" % x, "One of them is %s." % x, "Is the colour %s used?" % x]), x in cs, ["has_" + x])); y = s if pr(.5) else ch(SH); qs.append(yes(pk(["Is a %s among them?" % y, "Do you see a %s?" % y, "Does a %s appear?" % y, "There is a %s." % y]), y in ss, ["has_" + y]))
        z = ch(cols); y = ch(ss); qs.append(yes(ch(["Is there a %s %s?" % (z if pr(.3) else c, y)]), False)) if False else None
        k = ch(cs); t = (s, k); qs.append(yes("Is there a %s %s?" % (k, s), any(a == s and b == k for a, b in zip(ss, cs)), ["pair"]))
        qs.append(pick_q(["count"], ch(["How many %s do you see?" % plural(thing), "Count everything."]), n, [1, 2, 3, 4, 5]))
        a, b = R.sample(range(n), 2)
        if abs(pts[a][0] - pts[b][0]) > 24: qs.append(pick_q(["left", "leftmost"], ch(["Which of the two is further left, the %s or the %s one?" % (cs[a], cs[b])]), cs[a] if pts[a][0] < pts[b][0] else cs[b], [cs[a], cs[b]]))
    elif kind == "digit":
        v = ri(0, 9); c = ch(cols); h = ri(48, H - 16); w = ri(int(h * .4), int(h * .75)); w = min(w, W - 12); x, y = ri(4, max(4, W - w - 8)), ri(4, max(4, H - h - 8)); digit(dr.mark(c, str(v)), v, x, y, w, h, jit(RGB[c]), ri(5, 16))
        for _ in range(2): qs.append(pick_q(["digit", "number", "value"], pk(["Which digit do you see?", "What number is it?", "Read the digit.", "What is written here?", "Which numeral is drawn?", "The picture shows the digit ..."]), v, R.sample(range(10), ri(2, 6))))
        qs.append(colour_q(c, ch(["Colour of the digit", "In which colour is the number written?"]))); x = v if pr(.5) else ri(0, 9); qs.append(yes(pk(["Is it a %d?" % x, "Does the picture show a %d?" % x, "The digit is %d." % x, "Do you read a %d?" % x]), x == v, ["is_%d" % x]))
    elif kind == "bars":
        n = ri(2, 5); cs = R.sample(cols, n); hs = R.sample(range(2, 13), n); hor = pr(.2); base = H - ri(6, 16); dr.count = n
        if n > 1 and sorted(hs)[-1] - sorted(hs)[-2] < 2 and pr(.6): hs[hs.index(max(hs))] = 14
        if hor:
            bh = (H - 12) / n
            for i in range(n): dr.mark(cs[i]).rectangle([8, 6 + i * bh + 2, 8 + hs[i] * (W - 20) / 14, 6 + (i + 1) * bh - 3], fill=jit(RGB[cs[i]]))
        else:
            gap = ri(2, 9); bw = (W - 16) / n
            for i in range(n): dr.mark(cs[i]).rectangle([8 + i * bw + gap, base - hs[i] * (H - 26) / 14, 8 + (i + 1) * bw - gap, base], fill=jit(RGB[cs[i]]))
            dr.mark()
            if pr(.6): dr.line([4, base, W - 4, base], fill=(0, 0, 0) if bg != "black" else (255, 255, 255), width=2)
            if pr(.3): dr.line([6, 6, 6, base], fill=(60, 60, 60), width=2)
        for up in (True, False):
            w = ch((["longest"] if hor else ["highest", "tallest"]) + ["biggest", "largest"] if up else (["shortest"] if hor else ["lowest", "shortest"]) + ["smallest"]); b = cs[hs.index(max(hs) if up else min(hs))]
            qs += [pick_q([w, "bar"], pk(["Which colour has the %s bar?" % w, "Name the colour of the %s bar." % w, "The %s bar is ..." % w, "Which one is the %s?" % w, "Colour of the %s column" % w, "What is the %s value?" % w]), b, cs, n=8)] * (2 if up else 1)
            x = ch(cs); qs.append(yes(ch(["Is the %s bar the %s?" % (x, w), "The %s bar is the %s one." % (x, w)]), x == b, ["is_" + w]))
        qs += [pick_q(["bars", "count"], pk(["How many bars does the chart have?", "Count the bars.", "Number of columns", "How many values are plotted?"]), n, range(1, 7))] * 2
        a, b = R.sample(range(n), 2); w = "longer" if hor else "higher"; qs.append(yes(ch(["Is the %s bar %s than the %s one?" % (cs[a], w, cs[b]), "%s is %s than %s." % (cs[a].capitalize(), w, cs[b])]), hs[a] > hs[b], ["compare"])); x = ch(cs) if pr(.5) else ch(cols); qs.append(yes(ch(["Does the chart have a %s bar?" % x, "Is one bar %s?" % x]), x in cs, ["has_" + x]))
    elif kind == "grid":
        n, m = ri(1, 4), ri(1, 4); c = ch(cols); r = 10
        for i in range(n):
            for j in range(m): shape(dr.mark(c, "circle"), "circle", W * (j + .5) / m, H * (i + .5) / n, r, jit(RGB[c]))
        qs += [pick_q(["rows"], "How many rows are there?", n, [1, 2, 3, 4]), pick_q(["columns"], "How many columns are there?", m, [1, 2, 3, 4]), colour_q(c, "What colour are the dots?")]
    else:
        d = ch(["horizontal", "vertical", "diagonal"]); c = ch(cols); th = ri(4, 12)
        p = {"horizontal": [8, ri(20, H - 20), W - 8, None], "vertical": [ri(20, W - 20), 8, None, H - 8], "diagonal": [8, 8, W - 8, H - 8] if pr(.5) else [8, H - 8, W - 8, 8]}[d]; p = [p[0], p[1], p[0] if p[2] is None else p[2], p[1] if p[3] is None else p[3]]; dr.mark(c).line(p, fill=jit(RGB[c]), width=th)
        qs += [pick_q(["direction"], ch(["How does the line run?", "Direction of the line"]), d, ["horizontal", "vertical", "diagonal"]), colour_q(c, ch(["What colour is the line?", "Colour of the line"])), yes("Is the line %s?" % "vertical", d == "vertical")]
    a = np.asarray(im)
    if pr(.4): a = np.clip(a.astype(np.int16) + np.random.default_rng(ri(0, 10 ** 9)).integers(-ri(3, 14), ri(4, 15), a.shape), 0, 255).astype(np.uint8)
    return state, [q for q in qs if q], ("img", a, dr.targets())


# ------------------------------------------------------------------------------------------ topics, conversations, machine messages
def d_topic():
    ks = list(more.TOPICS); k = ch(ks); s = more.TOPICS[k]; t = fill(pk(s))
    if pr(.3): t += " " + fill(pk(s)) if pr(.7) else ""
    qs = []; n = min(len(ks), ri(2, 8)); o = [k] + R.sample([x for x in ks if x != k], n - 1); near = {frozenset(x) for x in (("science", "space"), ("health", "science"), ("environment", "weather"), ("environment", "energy"), ("animals", "environment"), ("economy", "jobs"), ("law", "politics"), ("art", "history"), ("technology", "science"), ("technology", "video games"), ("family", "education"), ("agriculture", "animals"), ("agriculture", "environment"), ("cars", "technology"), ("music", "art"), ("cinema", "art"), ("literature", "art"), ("agriculture", "weather"), ("economy", "cars"), ("energy", "science"), ("history", "art"))}
    hd = lambda x: x.split(" / ")[0]; o = [k] + [x for x in o[1:] if frozenset((hd(x), hd(k))) not in near]
    if len(o) < 2: o = [k, ch([x for x in ks if x != k and frozenset((hd(x), hd(k))) not in near])]
    nm = [ch(x.split(" / ")) for x in o]
    for _ in range(2): i, q, tg = choice(["topic", "subject", "section", "field", "theme"], ["x"], [(x, None) for x in nm], 0); q["instructions"] = pk(more.TOPQ); qs.append((i, q, tg))
    qs.append(yn(pk(more.TOPYN).format(x=ch(k.split(" / "))), True, ["about", "topic_match", "on_topic"])); x = ch([x for x in ks if x != k and frozenset((hd(x), hd(k))) not in near]); w = ch(x.split(" / ")); qs.append(yn(pk(more.TOPYN).format(x=w), False, ["about_" + ident(w, 0), "about", "on_topic"]))
    return wrap_text(t), qs


def d_talk():
    out = ch(["good", "good", "bad", "bad", "wait"]); m = [("u", fill(pk(more.ISSUE)))]
    for _ in range(ri(0, 2)): m += [("a", fill(pk(more.AGENT))), ("u", fill(ch(["Okay.", "One moment.", "It is number {big}.", "Done.", "Yes.", "Since {day}.", "The older one."])))]
    m += [("a", fill(pk(more.AGENT))), ("u", fill(pk({"good": more.GOOD, "bad": more.BAD, "wait": more.WAIT}[out])))]
    u, g = ch([("user", "agent"), ("user", "assistant"), ("customer", "agent"), ("customer", "support"), ("client", "operator"), ("guest", "staff")]); ck = ch(["content", "text", "message"])
    msgs = [{ch(["role"]): u if r == "u" else g, ck: x} for r, x in m]; r = R.random()
    state = msgs if r < .5 else {ch(["messages", "chat", "conversation", "thread"]): msgs} if r < .65 else "\n".join("%s: %s" % (a if pr(2) else "", b) for a, b in ((u.capitalize() if x == "u" else g.capitalize(), y) for x, y in m))
    qs = [yn(pk(more.SOLVED), {"good": 1., "bad": 0., "wait": .08}[out], ["solved", "fixed", "done", "success"]), yn(pk(more.OPENQ), {"good": 0., "bad": 1., "wait": .8}[out], ["open", "unsolved", "escalate", "needs_help"])]
    if out != "wait": qs += [yn(ch(["Is the %s pleased at the end?" % u, "Does the %s sound content in the last message?" % u, "The %s leaves happy." % u]), out == "good", ["pleased", "content"]), yn(ch(["Is the %s annoyed at the end?" % u, "Does the %s sound frustrated?" % u, "The %s is unhappy with the help." % u]), out == "bad", ["annoyed", "frustrated"])]
    nl = ch([["unhappy", "neutral", "happy"], ["dissatisfied", "undecided", "satisfied"], ["angry", "calm", "delighted"], ["bad", "so-so", "good"]]); i, q, tg = score(["satisfaction", "mood", "ending"], ["x"], [[x] for x in nl], {"good": [0, .04, .96], "bad": [.96, .04, 0], "wait": [.05, .9, .05]}[out]); q["instructions"] = pk(["How does the %s feel at the end?" % u, "Mood of the %s in the last message" % u, "How content is the %s?" % u, "Rate the ending of the talk.", "How pleased is the %s when the chat ends?" % u]); qs.append((i, q, tg))
    lab = {"good": ["solved", "fixed", "resolved"], "bad": ["not solved", "still broken", "unresolved"], "wait": ["waiting", "pending", "to be continued"]}; qs.append(pick_q(["outcome", "state", "result"], pk(["What is the outcome?", "How does it end?", "State of the case", "Where does the matter stand?"]), ch(lab[out]), [ch(lab[x]) for x in lab if x != out]))
    qs.append(yn(ch(["Does the %s apologise?" % g, "Does the %s say sorry?" % g]), any(x == "a" and "orry" in y for x, y in m), ["apology"])) if pr(.4) else None
    qs.append(pick_q(["messages", "count"], "How many messages are there?", len(m), [3, 5, 7])) if pr(.2) else None
    return state, [q for q in qs if q]


def d_ops():
    ks = list(more.OPS); k = ch(ks); nm, bad, ok = more.OPS[k]; quiet = pr(.4); msg = fill(pk(ok if quiet else bad)).replace("4{n}", "47"); sv = ch(gen.SERV); hard = not quiet and any(w in msg for w in ("lost", "down", "full", "corrupt", "stopped", "failed", "0 bytes", "killed", "aborted", "expired", "exhausted", "refused"))
    lv = ch(["INFO", "INFO", "DEBUG", "NOTICE", "info"]) if quiet else ch(["ERROR", "CRITICAL", "ERR", "FATAL", "error"] if hard else ["WARN", "WARNING", "ERROR", "warning"]); h, mi, se = ri(0, 23), ri(0, 59), ri(0, 59)
    t = ch(["%s %02d %02d:%02d:%02d %s %s: %s" % (ch(MONTHS)[:3], ri(1, 28), h, mi, se, sv, k, msg), "%s %02d:%02d:%02d %s %s: %s" % (date(), h, mi, se, lv, sv, msg), "[%02d:%02d] %s %s" % (h, mi, lv, msg), "%s | %s | %s" % (sv, lv, msg), "%s: %s" % (sv, msg), "<%d>%s[%d]: %s" % (ri(1, 190), sv, ri(10, 9999), msg), "%02d:%02d:%02d %s %s %s" % (h, mi, se, sv, lv.lower(), msg)])
    state = t if pr(.75) else {"host": sv, "severity": lv, "message": msg, "time": "%02d:%02d" % (h, mi)}; p = 0. if quiet else 1.
    o = [k] + R.sample([x for x in ks if x != k], ri(1, 6)); qs = [pick_q(["area", "component", "part"], pk(["Which part is concerned?", "What does the line belong to?", "Which subsystem speaks?", "Area of the message", "Which component does it come from?", "What is it about?"]), ch(nm.split(" / ")), [ch(more.OPS[x][0].split(" / ")) for x in o[1:]])]
    qs.append(yn(pk(["Is something wrong?", "Is there a fault?", "Does the message tell of trouble?", "Is it a failure?", "Something has failed.", "Is it bad news?", "Does it point to a defect?"]), p, ["fault", "trouble", "bad"])); qs.append(yn(pk(["Is all well?", "Is everything normal?", "Is it just routine?", "Nothing needs to be done.", "Can it be ignored?", "Is it harmless?"]), 1 - p, ["ok", "routine", "ignore"]))
    qs.append(yn(pk(["Must an engineer look at it now?", "Is it worth an alarm?", "Does it call for action?", "Should the team be alerted?", "Raise an alert?"]), 0. if quiet else .97 if hard else .75, ["alarm", "alert", "act"]))
    n = ch([2, 3, 3, 4]); lvs = {2: [["harmless", "fine", "no action"], ["a problem", "action needed"]], 3: [["harmless", "routine", "nothing to do"], ["watch it", "have a look", "warning"], ["serious", "critical", "act at once"]], 4: [["none", "quiet"], ["low"], ["high", "serious"], ["critical", "severe"]]}[n]
    pp = {2: [1 - p, p], 3: [.96, .04, 0] if quiet else [0, .2, .8] if hard else [.02, .6, .38], 4: [.97, .03, 0, 0] if quiet else [0, .05, .4, .55] if hard else [0, .35, .5, .15]}[n]; i, q, tg = score(["severity", "gravity", "alarm_level"], ["x"], lvs, pp); q["instructions"] = pk(["How grave is it?", "How bad is the event?", "Rate the gravity.", "Alarm level", "How much attention does it need?", "Seriousness of the line"]); qs.append((i, q, tg))
    return state, qs


# ------------------------------------------------------------------------------------------ everything
NEW = [(d_bank, 26), (d_rec, 36), (d_rows, 22), (d_tiny, 24), (d_limit, 10), (d_cat, 6), (d_read, 18), (d_scale, 6), (d_old, 6), (d_topic, 5), (d_talk, 3), (d_ops, 3), (d_pic, 76)]
W1 = {"support": 4, "review": 5, "vader": 6, "log": 2, "order": 6, "json": 8, "list": 4, "fact": 4, "num": 4, "family": 8, "mail": 2, "mod": 2, "lang": 4, "mention": 5, "wordnet": 4, "distill": 8, "debian": 1, "agent": 2, "chat": 2, "image": 8, "emotion": 2, "purpose": 2}
FN1 = {f.__name__[2:]: f for f in gen.FN}
ALL = [(f, w) for f, w in NEW] + [(FN1[k], w) for k, w in W1.items()]
DOMAINS = [f.__name__[2:] for f, _ in ALL]
BAN = set(json.load(open(HERE + "/heldout.json"))) if os.path.exists(HERE + "/heldout.json") else set()


def norm(s): return hashlib.sha256(re.sub(r"[\W_]+", " ", s.lower()).strip().encode()).hexdigest()[:12]


def make(domain=None):
    """one record; questions and states that occur word for word in the evaluation set are never made"""
    for _ in range(50):
        f = domain or R.choices([x for x, _ in ALL], [w for _, w in ALL])[0]
        r = gen.make(f)
        if isinstance(r["state"], str) and norm(r["state"]) in BAN and r["image"] is None: continue
        for k in list(r["questions"]):
            i = r["questions"][k].get("instructions")
            if isinstance(i, str) and norm(i) in BAN: del r["questions"][k]; del r["targets"][k]
        r["aux"] = [x for x in r["aux"] if x[0] in r["questions"]]
        if r["questions"]: return r
    raise RuntimeError("no record")
