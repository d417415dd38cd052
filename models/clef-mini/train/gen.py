"""Typed-question records with known answers: sentence templates, JSON facts, distilled topics, drawn pictures.

make(R) -> {"state":..., "questions": {...}, "targets": {id: [p per option in encoder order]}, "image": array or None,
            "aux": [(question id, [label index per option])] or [], "text_index": int or -1, "domain": str}
"""
import json, os, random, re, string
import numpy as np
import own

LARGE = True
R = random.Random(0)
D = {}          # loaded by setup(): real texts and teacher scores


def ch(x): return x[int(R.random() * len(x))]
def pr(p): return R.random() < p
def ri(a, b): return R.randint(a, b)


ALT = re.compile(r"\[([^\[\]]*)\]")
SLOT = re.compile(r"\{(\w+)\}")


def fill(s_, **kw):
    s = s_
    while True:
        m = ALT.search(s)
        if not m:
            break
        s = s[: m.start()] + ch(m.group(1).split("|")) + s[m.end():]
    def f(m):
        k = m.group(1)
        return str(kw[k]) if k in kw else str(slot(k))
    return SLOT.sub(f, s)


NAMES = "Anna Maria John Michael Sarah David Emma James Olga Pierre Carlos Wei Fatima Tom Laura Peter Ivan Chen Julia Ahmed Sofia Lukas Nina Raj Elena Marco Yuki Omar Clara Felix Priya Hugo Lena Diego Mia Noah Zoe Ben Karim Ines".split()
LAST = "Smith Miller Garcia Ivanov Müller Rossi Tanaka Kim Dubois Novak Silva Khan Brown Lee Weber Lopez Petrov Jones Schmidt Costa".split()
CITY = "Paris Berlin London Madrid Rome Toronto Sydney Chicago Moscow Beijing Vienna Lisbon Boston Dubai Seoul Warsaw Mumbai Oslo Prague Dublin Munich Lima Cairo Zurich Hamburg Lyon Milan Austin Denver Osaka".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
PROD = "phone|laptop|pair of headphones|coffee machine|jacket|camera|book|blender|mattress|keyboard|vacuum cleaner|watch|TV|chair|bag|tablet|printer|monitor|lamp|bike|toaster|router|speaker|desk|backpack|tent|kettle|drill|heater|scarf".split("|")
SERV = "auth-service payment-api web-frontend user-db search-index mail-relay cache-node-3 order-worker billing-cron cdn-edge gateway inventory-api report-job k8s-node-7 vpn-server backup-agent image-resizer notification-hub ledger session-store".split()
COLORN = "red green blue yellow orange purple black white gray brown pink cyan".split()
OBJ = "apples|books|tickets|chairs|eggs|cookies|pencils|shirts|plants|bottles|boxes|coins|lamps|oranges|stamps|cameras|bicycles|candles|cups|keys".split("|")
FRUIT = "coffee|tea|rice|wheat|cotton|steel|paper|sugar|timber|glass".split("|")


def slot(k):
    if k == "name": return ch(NAMES)
    if k == "full": return ch(NAMES) + " " + ch(LAST)
    if k == "city": return ch(CITY)
    if k == "day": return ch(DAYS)
    if k == "month": return ch(MONTHS)
    if k == "prod": return ch(PROD)
    if k == "serv": return ch(SERV)
    if k == "n": return ri(2, 40)
    if k == "big": return ri(100, 9000)
    if k == "price": return ch(["%d dollars", "$%d", "%d euros", "€%d", "%d EUR", "%d USD", "£%d"]) % ri(5, 900)
    if k == "ord": return ch(["#%d", "%d", "no. %d", "A-%d", "ORD-%d"]) % ri(1000, 99999)
    if k == "pct": return "%d%%" % ri(5, 99)
    if k == "time": return "%d:%02d" % (ri(0, 23), ri(0, 59))
    if k == "ip": return ".".join(str(ri(1, 254)) for _ in range(4))
    if k == "email": return ch(NAMES).lower() + ch([".", "_", ""]) + ch(LAST).lower().replace("ü", "ue") + "@" + ch(["example.com", "mail.test", "example.org", "post.example"])
    if k == "phone": return ch(["+1 555 %03d %04d", "555-%03d-%04d", "+49 30 %03d%04d", "0%03d %04d"]) % (ri(100, 999), ri(1000, 9999))
    if k == "obj": return ch(OBJ)
    if k == "word": return ch(D["words"]) if D.get("words") else ch(OBJ)
    if k == "team" or k in own.S: return ch(own.S[k])
    return k


# ------------------------------------------------------------------------------------------ questions
def ident(s, style=None):
    """an option/question id in some naming style"""
    s = s.strip()
    w = re.findall(r"[^\W_]+", s)
    if not w: return s
    k = style if style is not None else R.random()
    if k < .5: return "_".join(x.lower() for x in w)
    if k < .62: return s
    if k < .74: return " ".join(w)
    if k < .84: return "-".join(x.lower() for x in w)
    if k < .92: return w[0].lower() + "".join(x.capitalize() for x in w[1:])
    return " ".join(x.capitalize() for x in w)


def noul(ids, instr, truth, crit=None):
    p = float(truth)
    q = {"type": "noul"}
    r = R.random()
    if r < .93: q["instructions"] = fill(ch(instr))
    if crit and pr(.45):
        c = {}
        t, f = fill(ch(crit[0])), fill(ch(crit[1]))
        if pr(.85): c["true"] = t
        if pr(.85) or not c: c["false"] = f
        q["criteria"] = c
    elif pr(.08):
        q["criteria"] = ch([{"true": "yes", "false": "no"}, {"true": "Yes", "false": "No"}, {"true": "correct", "false": "incorrect"}, {"true": "holds", "false": "does not hold"}])
    return ch(ids), q, {"true": p, "false": 1 - p}


def choice(ids, instr, opts, ans, style=None, desc=.5):
    """opts: [(name, [descriptions])]; ans: index or list of probabilities"""
    q = {"type": "choice"}
    if pr(.93): q["instructions"] = fill(ch(instr))
    st = R.random() if style is None else style
    crit, tgt = {}, {}
    usedesc = R.random()
    for i, (n, d) in enumerate(opts):
        k = ident(n, st)
        if k in crit: k = n
        if k in crit: continue
        dd = fill(ch(d)) if d else None
        crit[k] = dd if (dd is not None and (usedesc < desc or (usedesc < desc + .1 and pr(.5)))) else None
        if usedesc > .97: crit[k] = ""
        tgt[k] = float(ans[i]) if not isinstance(ans, int) else float(i == ans)
    if pr(.08) :  # anonymous ids, meaning only in the description
        lst = list(crit)
        if all(d for _, d in opts) and len(lst) == len(opts):
            R.shuffle(lst)
            m = {k: (chr(97 + i) if pr(2) else "") for i, k in enumerate(lst)}
            byk = {ident(n, st): d for n, d in opts}
            if all(k in byk for k in lst):
                crit = {m[k]: fill(ch(byk[k])) for k in lst}; tgt = {m[k]: tgt[k] for k in lst}
    ks = list(crit); R.shuffle(ks)
    q["criteria"] = {k: crit[k] for k in ks}
    return ch(ids), q, tgt


def score(ids, instr, levels, probs):
    q = {"type": "score", "criteria": [fill(ch(l)) for l in levels]}
    if pr(.94): q["instructions"] = fill(ch(instr))
    return ch(ids), q, {str(i): float(p) for i, p in enumerate(probs)}


def onehot(i, n, soft=0.0):
    p = [0.0] * n
    p[i] = 1.0
    if soft and n > 1:
        nb = [j for j in (i - 1, i + 1) if 0 <= j < n]
        for j in nb: p[j] = soft / len(nb)
        p[i] = 1 - soft
    return p


def subset(n_total, keep, kmin=2, kmax=10):
    """indices of options incl. keep"""
    k = min(n_total, ri(kmin, kmax))
    rest = [i for i in range(n_total) if i != keep]
    R.shuffle(rest)
    idx = [keep] + rest[: k - 1]
    R.shuffle(idx)
    return idx


def wrap_text(t, kinds=("message", "text", "body", "content", "comment")):
    """the text as a string, or inside some JSON"""
    r = R.random()
    if r < .62: return t
    k = ch(kinds)
    if r < .72: return {k: t}
    if r < .80: return {k: t, "id": ri(1, 99999), ch(["from", "author", "user"]): slot("full")}
    if r < .86: return {"ticket": {k: t, "channel": ch(["email", "chat", "phone", "web form"]), "created": "20%02d-%02d-%02d" % (ri(24, 27), ri(1, 12), ri(1, 28))}}
    if r < .92: return [{"role": "user", "content": t}]
    if r < .96: return {"channel": ch(["email", "chat", "app"]), k: t, "attachments": [], "lang": None}
    return {"data": [{"type": k, "value": t}]}


# ------------------------------------------------------------------------------------------ support
SUP = {
    "billing": (["charges, invoices and payments", "payment problems and wrong charges", "anything about money, cards or invoices", "Charges and invoices"], [
        "I was charged [twice|two times|three times] for [the same order|one order|my subscription|order {ord}].", "My invoice [shows|lists] {price} but I only agreed to {price}.",
        "[There is|I see] an unknown charge of {price} on my [credit card|bank statement|card].", "The payment [failed|was declined] although my card is valid.",
        "Why did you [take|deduct|withdraw] {price} from my account?", "I need a corrected invoice for [my company|last month|{month}].", "My discount code was not applied and I paid {price}.",
        "You billed me for a plan I [never ordered|cancelled in {month}].", "The VAT on invoice {ord} is wrong.", "Please change the credit card on my account, the old one expired.",
        "I still have not received the invoice for order {ord}.", "[Two payments|A double payment] went out for one purchase."]),
    "technical": (["errors, crashes and bugs", "software problems and outages", "Errors, outages and things that do not work", "bugs in the product"], [
        "The app crashes [every time|whenever] I open the [settings|reports page|camera].", "I get error {big} when I [upload a file|save the document|export the report].",
        "The website [has been down|does not load] since [this morning|{time}|yesterday].", "Since the last update the [screen stays black|sync is broken|search returns nothing].",
        "The page shows a 500 error after I click [submit|pay|save].", "My {prod} does not connect to the [wifi|network|computer] any more.", "The software freezes after a few [seconds|minutes].",
        "The API returns a timeout for every request.", "Notifications stopped working on my phone.", "The export button does nothing at all.", "Videos buffer forever and the sound is out of sync."]),
    "account": (["login, passwords and profile", "access to the account, password resets", "Login and profile problems"], [
        "I [forgot|lost] my password and the reset [link|email] never arrives.", "I can't log in [to my account|any more|since yesterday].", "My account was locked after [three|five|several] attempts.",
        "How do I change the email address [of my account|in my profile]?", "The two-factor code is not accepted.", "Please delete my account and all my data.", "Someone changed my password and I have no access now.",
        "I want to update my name and phone number in the profile.", "It says my user name does not exist."]),
    "shipping": (["delivery, tracking and lost parcels", "where is my package, late or damaged parcels", "Delivery and parcels"], [
        "My [package|parcel|order {ord}] has not arrived [yet|after {n} days].", "Where is my [order|delivery|parcel]?", "The tracking [page|number] has not changed for {n} days.",
        "The courier left the box [in the rain|at the wrong house|with a neighbour I do not know].", "Can you deliver it to another address in {city}?", "The delivery was promised for {day} but nothing came.",
        "The parcel arrived with [a broken corner|the seal opened].", "The shipment seems to be stuck in {city}.", "Only {n} of the items in my order were in the box."]),
    "sales": (["prices, plans and new purchases", "questions before buying", "Prices, quotes and new plans"], [
        "How much does the [premium|business|family] plan cost?", "Do you offer a discount for [students|schools|{n} users|non-profits]?", "We would like a quote for {n} licences.",
        "I want to upgrade [to the pro plan|my subscription].", "Is the {prod} available in [black|blue|red|a larger size]?", "Can I get a demo [next week|on {day}] before we buy?", "What is the difference between the basic and the pro plan?",
        "Which model do you recommend for a [small office|beginner|large family]?", "Do you sell spare parts for the {prod}?"]),
    "returns": (["sending items back, exchanges", "returns and exchanges of products", "Send a product back or swap it"], [
        "The {prod} I received is [broken|damaged|defective], I want to send it back.", "How can I return [the|my] {prod}?", "I received the wrong [size|colour|model] and need an exchange.",
        "The {prod} stopped working after {n} days, please replace it.", "I would like to swap the {prod} for a different colour.", "Please send me a return label for order {ord}.", "The {prod} does not fit, can I exchange it?"]),
    "cancellation": (["ending a subscription or order", "the customer wants to cancel", "Cancel orders or contracts"], [
        "Please cancel my [subscription|order {ord}|membership|contract].", "I want to [end|stop|terminate] my subscription [at the end of the month|today].", "How do I unsubscribe from the [service|premium plan]?",
        "I ordered by mistake, please cancel it before it ships.", "I no longer need the service and wish to close the contract."]),
    "feedback": (["suggestions and feature requests", "ideas and praise", "Ideas for new features"], [
        "It would be great if the app had [a dark mode|an offline mode|a calendar view].", "Please add support for [Spanish|Apple Pay|two monitors|CSV export].", "I suggest you make the [search|filter|menu] easier to find.",
        "A small idea: let users [sort|pin|archive] their messages.", "My wish for the next version is a [better editor|faster search|larger font]."]),
}
SUPNAMES = {"billing": ["billing", "payments", "billing team", "finance", "accounting"], "technical": ["technical", "technical support", "engineering", "tech", "it support", "bug", "technical issue"],
            "account": ["account", "account access", "login", "identity", "user accounts"], "shipping": ["shipping", "delivery", "logistics", "order tracking"], "sales": ["sales", "presales", "sales team", "pricing"],
            "returns": ["returns", "exchange", "returns desk", "warranty"], "cancellation": ["cancellation", "cancel", "retention", "churn"], "feedback": ["feedback", "feature request", "product ideas", "product team", "suggestion"]}
REFUND = ["I want my money back.", "Please refund [me|the money|the amount|{price}|one payment] [today|as soon as possible|].", "I expect a full refund.", "Can I get a refund?", "Return my money to the card, please.", "I demand the {price} back.",
          "Please reverse the charge.", "Kindly reimburse me.", "I would like to be refunded.", "Please send the money back to my card."]
URG = [["There is no hurry.", "Take your time.", "Whenever you have a moment.", "It can wait until next week.", "This is not urgent at all.", "No rush.", "Just for your information."],
       ["Please answer within a few days.", "It would be nice to hear from you this week.", "Please have a look when you can.", "I would like an answer by {day}."],
       ["I need this solved today.", "Please reply today.", "We need an answer by tonight.", "It has to work by tomorrow morning.", "Please hurry."],
       ["This is extremely urgent, our whole [shop|company|production] is down!", "Emergency, nobody can work!", "We are losing money every minute, help us NOW!", "URGENT! We need help immediately!", "This is critical, fix it right now!"]]
TONE = [["Thank you very much for your help.", "Many thanks in advance!", "You have always been great.", "Thanks and have a nice day!", "I really appreciate your support."],
        ["Regards, {name}", "", "", "Best, {name}", "Sincerely, {full}"],
        ["This is really annoying.", "I am disappointed.", "That is not what I expected from you.", "I am not happy about this.", "This is the second time I have written to you."],
        ["This is outrageous!", "Your service is a disgrace!", "I am furious!!!", "You are the worst company ever!", "I have had enough of your incompetence!", "Unbelievable, what a joke of a company!"]]
CANC = ["Otherwise I will cancel my subscription.", "If this is not fixed I will switch to [another provider|your competitor].", "I am thinking about leaving you.", "One more problem and I am gone.", "I am ready to move to a competitor."]
LEGAL = ["My lawyer will contact you.", "I will take legal action.", "I will sue you.", "You will hear from my attorney.", "I will report you to the consumer protection agency."]
SUPX = {  # other languages: (category, refund, urgency level, text)
    "de": [("billing", 1, 1, "Mir wurde der Betrag doppelt abgebucht, bitte erstatten Sie {price}."), ("shipping", 0, 2, "Mein Paket ist noch nicht da, ich brauche es dringend bis morgen."), ("technical", 0, 3, "Die App stürzt ständig ab, nichts geht mehr, bitte sofort helfen!"),
           ("account", 0, 1, "Ich habe mein Passwort vergessen und kann mich nicht anmelden."), ("cancellation", 0, 0, "Ich möchte mein Abo zum Monatsende kündigen."), ("sales", 0, 0, "Was kostet der Premium-Tarif für {n} Nutzer?"), ("returns", 1, 1, "Das Gerät ist defekt, ich möchte es zurücksenden und mein Geld zurück.")],
    "fr": [("billing", 1, 1, "J'ai été débité deux fois, merci de me rembourser {price}."), ("shipping", 0, 2, "Mon colis n'est toujours pas arrivé, j'en ai besoin pour demain."), ("technical", 0, 3, "Le site est en panne, plus rien ne marche, aidez-nous tout de suite !"),
           ("account", 0, 1, "J'ai oublié mon mot de passe et je ne peux plus me connecter."), ("cancellation", 0, 0, "Je souhaite résilier mon abonnement à la fin du mois."), ("sales", 0, 0, "Quel est le prix de l'offre pro pour {n} utilisateurs ?"), ("returns", 1, 1, "L'article est cassé, je veux le renvoyer et être remboursé.")],
    "es": [("billing", 1, 1, "Me cobraron dos veces, por favor devuélvanme {price}."), ("shipping", 0, 2, "Mi paquete no ha llegado y lo necesito para mañana."), ("technical", 0, 3, "La aplicación no funciona, es urgente, necesitamos ayuda ahora mismo."),
           ("account", 0, 1, "Olvidé mi contraseña y no puedo entrar en mi cuenta."), ("cancellation", 0, 0, "Quiero cancelar mi suscripción a fin de mes."), ("sales", 0, 0, "¿Cuánto cuesta el plan premium para {n} usuarios?"), ("returns", 1, 1, "El producto llegó roto, quiero devolverlo y que me reembolsen.")],
    "ru": [("billing", 1, 1, "С меня дважды списали деньги, верните {price}."), ("shipping", 0, 2, "Посылка до сих пор не пришла, она нужна мне завтра."), ("technical", 0, 3, "Приложение не работает, срочно помогите, всё стоит!"),
           ("account", 0, 1, "Я забыл пароль и не могу войти в аккаунт."), ("cancellation", 0, 0, "Хочу отменить подписку в конце месяца."), ("sales", 0, 0, "Сколько стоит тариф премиум на {n} пользователей?"), ("returns", 1, 1, "Товар пришёл сломанный, хочу вернуть его и получить деньги назад.")],
    "zh": [("billing", 1, 1, "我被重复扣款了，请退还{n}元。"), ("shipping", 0, 2, "我的包裹还没到，明天就要用，请尽快。"), ("technical", 0, 3, "系统崩溃了，所有人都无法工作，请马上处理！"), ("account", 0, 1, "我忘记了密码，无法登录账户。"),
           ("cancellation", 0, 0, "我想在月底取消订阅。"), ("sales", 0, 0, "高级套餐{n}个用户多少钱？"), ("returns", 1, 1, "商品坏了，我要退货并退款。")],
}


def team_q(cat):
    names = list(SUP)
    idx = subset(len(names), names.index(cat), 2, 8)
    return choice(["team", "department", "route", "queue", "category", "topic", "issue_type", "owner", "who_handles"],
                  ["Which team should [handle|take|answer] [this|the message|the ticket|it]?", "Route the [message|ticket|request].", "What is the message [about|mainly about]?", "Who should take care of this?", "[Pick|Choose|Select] the [right|best] department.",
                   "Which category fits the ticket [best|]?", "Which department is responsible?", "Assign the request to a team.", "What kind of [problem|issue|request] is it?"],
                  [(ch(SUPNAMES[names[i]]), SUP[names[i]][0]) for i in idx], idx.index(names.index(cat)), desc=.55)


def refund_q(v):
    return noul(["refund", "refund_requested", "wants_refund", "money_back", "is_refund_request"],
                ["[Is|Does] the [customer|user|writer|client] [ask for|want|request] [a refund|their money back|money back|a reimbursement]?".replace("[Is|Does]", "Does"), "Is a refund [requested|asked for]?", "Is the customer asking for a refund?", "The [customer|writer|user] [asks for|wants|requests] [a refund|their money back].",
                 "Refund requested?", "Does the message [contain|include] a refund request?", "Is the user asking for money back?"], v,
                (["[a refund or reversal is asked for|the customer wants money back|asks for a refund]"], ["[anything else|no refund is asked for|no money back requested]"]))


URGL = {2: [["not urgent", "can wait", "low priority", "normal"], ["urgent", "needs attention now", "high priority"]],
        3: [["can wait", "low", "Can wait a week", "no hurry", "not urgent"], ["should be answered [today|soon]", "medium", "today", "normal"], ["critical, answer now", "high", "now", "urgent", "Critical, act immediately"]],
        4: [["low", "no hurry", "not urgent"], ["normal", "within days", "medium"], ["high", "today"], ["critical", "immediately", "emergency"]],
        5: [["none", "not urgent at all"], ["low", "slightly urgent"], ["medium", "moderately urgent"], ["high", "very urgent"], ["critical", "extremely urgent"]]}


def urg_probs(lv, n):
    if n == 2: return [1, 0] if lv <= 1 else [0, 1]
    if n == 3: return {0: [.95, .05, 0], 1: [.3, .65, .05], 2: [.02, .6, .38], 3: [0, .05, .95]}[lv]
    if n == 4: return onehot(lv, 4, .08)
    return {0: [.7, .28, .02, 0, 0], 1: [.05, .5, .42, .03, 0], 2: [0, .03, .27, .6, .1], 3: [0, 0, .02, .18, .8]}[lv]


def urgency_q(lv):
    n = ch([2, 3, 3, 3, 4, 5])
    if pr(.2):
        return noul(["urgent", "is_urgent", "needs_fast_reply", "time_critical"], ["Is [it|this|the message] urgent?", "Does this need an immediate [answer|reaction]?", "Is the matter time critical?", "The [message|request] is urgent.", "Must this be handled [right away|immediately]?"], {0: .03, 1: .15, 2: .75, 3: .98}[lv])
    return score(["urgency", "priority", "how_urgent", "severity", "urgency_level"], ["How urgent is [it|this|the message|the ticket]?", "Rate the urgency.", "How [quickly|soon] must [this|it] be [answered|handled]?", "What is the priority?", "Urgency [level|of the request]"], URGL[n], urg_probs(lv, n))


def d_support():
    if pr(.2):
        l = ch(list(SUPX))
        cat, ref, urg, t = ch(SUPX[l])
        t = fill(t)
        qs = [team_q(cat), refund_q(ref), urgency_q(urg), lang_q(l)]
        return wrap_text(t), qs
    cat = ch(list(SUP))
    parts = [fill(ch(SUP[cat][1]))]
    ref = pr(.35) and cat in ("billing", "returns", "shipping", "cancellation", "technical")
    urg = ch([0, 1, 1, 2, 3]); tone = ch([0, 1, 1, 2, 3]); canc = pr(.15) and cat not in ("cancellation", "sales", "feedback"); legal = pr(.1) and tone >= 2
    says_urg = pr(.65)
    if not says_urg: urg = 1
    orderno = None
    mid = []
    if ref: mid.append(fill(ch(REFUND)))
    if says_urg: mid.append(fill(ch(URG[urg])))
    if canc: mid.append(fill(ch(CANC)))
    if legal: mid.append(fill(ch(LEGAL)))
    if pr(.2): mid.append(fill(ch(["My customer number is {big}.", "I am writing from {city}.", "I bought it on {day}.", "I have been a customer for {n} years.", "You can call me at {phone}.", "My email is {email}."])))
    R.shuffle(mid)
    parts += mid
    parts.append(fill(ch(TONE[tone])))
    if pr(.3): parts.insert(0, fill(ch(["Hello,", "Hi,", "Dear support team,", "Good morning,", "Hey there,"])))
    t = " ".join(x for x in parts if x)
    qs = [team_q(cat), refund_q(ref), urgency_q(urg)]
    qs.append(noul(["churn_risk", "threatens_to_leave", "may_cancel"], ["[Does|Might] the customer [threaten to leave|want to leave|consider leaving]?".replace("[Does|Might]", "Does"), "Is there a risk that the customer [leaves|cancels]?", "The customer [threatens to cancel|is about to leave]."], canc or cat == "cancellation"))
    qs.append(noul(["legal", "legal_threat", "mentions_lawyer"], ["Does the [customer|writer] threaten [legal action|with a lawyer]?", "Is legal action mentioned?", "The message contains a legal threat."], legal))
    nt = ch([2, 3, 3, 4])
    lv = {2: [["calm", "friendly or neutral"], ["[angry|upset]"]], 3: [["calm", "polite"], ["annoyed", "disappointed"], ["furious", "very angry"]], 4: [["friendly", "grateful"], ["neutral"], ["annoyed"], ["furious", "enraged"]]}[nt]
    pp = {2: [[1, 0], [.95, .05], [.2, .8], [0, 1]], 3: [[1, 0, 0], [.92, .08, 0], [.07, .88, .05], [0, .06, .94]], 4: [[.95, .05, 0, 0], [.1, .85, .05, 0], [0, .07, .88, .05], [0, 0, .06, .94]]}[nt][tone]
    qs.append(score(["anger", "tone", "frustration", "mood", "how_upset"], ["How [upset|angry|annoyed] is the [writer|customer]?", "Rate the [anger|frustration] of the customer.", "What is the tone [of the message|]?", "Tone"], lv, pp))
    qs.append(noul(["angry", "is_angry", "customer_upset"], ["Is the customer [angry|upset|furious]?", "The writer is angry.", "Does the message sound angry?"], [.01, .04, .7, .98][tone]))
    qs.append(noul(["thanks", "polite", "says_thanks"], ["Does the [writer|customer] [say thank you|thank the team]?", "Are there words of thanks?", "The writer thanks the support team."], "hank" in t or "appreciate" in t))
    return wrap_text(t), qs


# ------------------------------------------------------------------------------------------ languages
LANGN = {"en": ["English", "Englisch", "en"], "de": ["German", "Deutsch", "de"], "fr": ["French", "français", "fr"], "es": ["Spanish", "español", "es"], "ru": ["Russian", "русский", "ru"], "zh": ["Chinese", "中文", "zh"], "it": ["Italian", "italiano", "it"], "pt": ["Portuguese", "português", "pt"], "ja": ["Japanese", "日本語", "ja"]}


def lang_q(l):
    ls = list(LANGN)
    if pr(.25):
        o = l if pr(.5) else ch(ls)
        return noul(["is_" + LANGN[o][0].lower(), "language_check"], ["Is the text [written in|in] %s?" % LANGN[o][0], "The [text|message] is in %s." % LANGN[o][0]], o == l)
    idx = subset(len(ls), ls.index(l), 2, 8)
    k = ch([0, 0, 0, 1, 2])
    return choice(["language", "lang", "text_language"], ["[Which|What] language is [the text|it|the message] [written in|in]?", "[Identify|Detect] the language.", "Language of the [text|message]"],
                  [(LANGN[ls[i]][k], [LANGN[ls[i]][0] + " text", "written in " + LANGN[ls[i]][0]]) for i in idx], idx.index(ls.index(l)), style=.55 if k < 2 else 0, desc=.2)


def d_lang():
    l = ch(list(LANGN))
    t = ch(D["bylang"][l])
    return wrap_text(t), [lang_q(l), lang_q(l)]


# ------------------------------------------------------------------------------------------ reviews
ASP = {
    "price": (["price", "cost", "value for money"], ["[Great|Good|Fair] value for the money.", "It was surprisingly cheap.", "Worth every [cent|penny].", "The price is very fair.", "A real bargain at {price}."], ["[Far|Much] too expensive.", "Totally overpriced [for what you get|].", "Not worth {price}.", "You pay way too much.", "The price is a rip-off."]),
    "delivery": (["delivery", "shipping"], ["It arrived a day early.", "Fast delivery and well packed.", "Shipping was quick.", "The parcel came the next morning."], ["Delivery took [three|five|six] weeks.", "It arrived late and the box was crushed.", "Shipping was painfully slow.", "The courier never rang and I had to pick it up."]),
    "quality": (["quality", "build quality", "durability"], ["The build quality is excellent.", "It feels solid and well made.", "Still works like new after [a year|two years].", "Beautiful materials."], ["It broke after [two days|a week|a month].", "Feels cheap and flimsy.", "The plastic cracked on the first use.", "Poor workmanship.", "It stopped working almost at once."]),
    "service": (["service", "customer service", "support", "staff"], ["The staff were [friendly|kind] and helpful.", "Customer service answered within minutes.", "Support solved my problem right away.", "Wonderful people, very attentive."], ["The staff were rude.", "Customer service never replied.", "Support was useless and unfriendly.", "They hung up on me."]),
    "battery": (["battery", "battery life"], ["The battery lasts [two|three] days.", "Battery life is fantastic."], ["The battery dies after [one hour|two hours].", "Battery life is awful."]),
    "usability": (["usability", "ease of use", "setup"], ["Very easy to use.", "Set up in five minutes.", "Even my grandmother understands it.", "The menus are clear."], ["Far too complicated.", "The manual is incomprehensible.", "Setting it up was a nightmare.", "The menus are confusing."]),
    "food": (["food", "meal", "taste"], ["The food was delicious.", "Best [pasta|soup|curry|breakfast] I have had in years.", "Every dish tasted fresh."], ["The food was cold and tasteless.", "The [soup|steak|fish] was inedible.", "My meal was undercooked."]),
    "room": (["room", "cleanliness"], ["The room was spotless and quiet.", "Lovely clean room with a view."], ["The room was dirty and smelled.", "There was hair in the shower.", "Too noisy to sleep."]),
    "sound": (["sound", "audio"], ["The sound is crystal clear.", "Amazing bass."], ["The sound is tinny.", "There is a constant buzzing noise."]),
    "screen": (["screen", "display"], ["The screen is bright and sharp.", "Gorgeous display."], ["The screen flickers.", "The display is too dark."]),
}
OVER = [["Absolutely terrible, avoid!", "Worst purchase of my life.", "Never again.", "Horrible experience.", "Complete waste of money."], ["I am rather disappointed.", "Not really good.", "I expected more.", "Below average."],
        ["It is okay.", "Nothing special.", "Average, does the job.", "Neither good nor bad."], ["I like it.", "Pretty good overall.", "A good choice.", "Quite satisfied."], ["Absolutely love it!", "Perfect, I would buy it again!", "The best I ever had!", "Outstanding, highly recommended!", "Five stars!"]]
OVERX = {"de": ["Absolut schrecklich, nie wieder!", "Ich bin eher enttäuscht.", "Ganz okay, nichts Besonderes.", "Ziemlich gut, bin zufrieden.", "Einfach perfekt, ich liebe es!"], "fr": ["Horrible, à éviter absolument !", "Je suis plutôt déçu.", "Correct, sans plus.", "Assez bon, je suis satisfait.", "Parfait, je l'adore !"],
         "es": ["Terrible, nunca más.", "Estoy algo decepcionado.", "Está bien, nada especial.", "Bastante bueno, estoy contento.", "¡Perfecto, me encanta!"], "ru": ["Ужасно, никогда больше!", "Я скорее разочарован.", "Нормально, ничего особенного.", "Довольно хорошо, я доволен.", "Отлично, просто обожаю!"], "zh": ["太糟糕了，再也不买了！", "有点失望。", "一般般，没什么特别的。", "挺好的，比较满意。", "太棒了，非常喜欢！"]}
SENL = {2: [["negative", "bad", "unhappy"], ["positive", "good", "happy"]], 3: [["negative", "bad"], ["neutral", "mixed", "neither"], ["positive", "good"]],
        5: [["very negative", "terrible", "1 star", "hates it"], ["negative", "bad", "2 stars", "dislikes it"], ["neutral", "mixed", "3 stars", "okay"], ["positive", "good", "4 stars", "likes it"], ["very positive", "excellent", "5 stars", "loves it"]]}


def sent_q(s):
    """s in 0..4 (float)"""
    r = R.random()
    if r < .22:
        p = {0: .01, 1: .12, 2: .5, 3: .93, 4: .99}
        lo = int(s); v = p[lo] + (p[min(4, lo + 1)] - p[lo]) * (s - lo)
        if pr(.4): return noul(["negative", "is_negative", "unhappy", "complaint"], ["Is the [review|text|comment|feedback] negative?", "Is the [customer|author|writer] [unhappy|dissatisfied]?", "The [author|writer] is dissatisfied.", "Does the author dislike it?"], 1 - v)
        return noul(["positive", "is_positive", "satisfied", "recommends", "happy"], ["Is the [review|text|comment|feedback] positive?", "Is the [customer|author|writer] [happy|satisfied]?", "The [author|writer] is satisfied.", "Would the author recommend it?", "Does the writer like it?"], v)
    def dist(n):
        x = s / 4 * (n - 1)
        w = np.exp(-((np.arange(n) - x) ** 2) / (2 * (.33 if n <= 3 else .45) ** 2))
        return (w / w.sum()).tolist()
    if r < .6:
        n = ch([2, 3, 3, 5, 5])
        return score(["sentiment", "rating", "satisfaction", "stars", "mood"], ["[How positive is|Rate] the [review|text|feedback]?", "What is the sentiment?", "How [satisfied|happy] is the [customer|author|writer]?", "Sentiment of the [review|text|comment]", "How many stars would the author give?"], SENL[n], dist(n))
    n = ch([2, 3, 3])
    nm = {2: ["negative", "positive"], 3: ["negative", "neutral", "positive"]}[n]
    return choice(["sentiment", "polarity", "opinion", "attitude"], ["What is the sentiment [of the text|of the review|]?", "[Classify|Determine] the sentiment.", "Is the opinion positive or negative?", "Polarity of the text"],
                  [(x, {"negative": ["bad opinion, criticism", "the author is unhappy"], "neutral": ["no clear opinion", "mixed or factual"], "positive": ["good opinion, praise", "the author is pleased"]}[x]) for x in nm], dist(n), desc=.35)


def d_review():
    if pr(.15):
        l = ch(list(OVERX)); s = ri(0, 4)
        return wrap_text(OVERX[l][s], ("review", "comment", "text")), [sent_q(s), sent_q(s), lang_q(l)]
    kind = ch(["product", "product", "hotel", "restaurant", "app"])
    pool = {"product": ["price", "delivery", "quality", "service", "battery", "usability", "sound", "screen"], "hotel": ["price", "service", "room", "food"], "restaurant": ["price", "service", "food"], "app": ["price", "service", "usability", "quality"]}[kind]
    k = ri(1, min(3, len(pool)))
    asp = R.sample(pool, k); base = ch([0, 0, 1, 2, 3, 4, 4])
    pol, sent = {}, []
    for a in asp:
        p = 1 if pr(base / 4) else 0
        pol[a] = p
        sent.append(fill(ch(ASP[a][2 - p])))
    m = np.mean(list(pol.values()))
    if pr(.75):
        ov = int(round(m * 4)) if 0 < m < 1 else (ch([0, 0, 1]) if m == 0 else ch([4, 4, 3]))
        if 0 < m < 1: ov = ch([1, 2, 2, 3])
        sent.insert(ch([0, len(sent)]), fill(ch(OVER[ov]))); s = .35 * 4 * m + .65 * ov
    else:
        s = .6 + 2.8 * m
    if pr(.4):
        sent.insert(0, fill({"product": "[Bought|Ordered|Got] the {prod} [last week|on {day}|in {month}].", "hotel": "We stayed [two|three|five] nights in {city}.", "restaurant": "We had dinner here on {day}.", "app": "I have used this app for {n} days."}[kind]))
    t = " ".join(sent)
    qs = [sent_q(s), sent_q(s)]
    others = [a for a in ASP if a not in pol]
    for a, v in ([(ch(asp), 1)] if pr(.5) else [(ch(others), 0)]):
        nm = ch(ASP[a][0])
        qs.append(noul(["mentions_" + a, a + "_mentioned", a], ["Does the [review|author|text] mention the %s?" % nm, "Is the %s mentioned?" % nm, "The %s is discussed." % nm, "Does the reviewer [talk|say something] about the %s?" % nm], v))
    bad = [a for a in asp if not pol[a]]; good = [a for a in asp if pol[a]]
    if len(bad) == 1:
        o = [bad[0]] + R.sample([a for a in pool if a != bad[0]], ri(1, len(pool) - 1))
        qs.append(choice(["main_complaint", "criticised", "problem_area", "complaint_about"], ["What is [criticised|the complaint about]?", "Which aspect does the author [dislike|complain about]?", "What went wrong?"], [(ch(ASP[a][0]), ["about the " + ASP[a][0][0]]) for a in o], 0, desc=.2))
    if len(good) == 1:
        o = [good[0]] + R.sample([a for a in pool if a != good[0]], ri(1, len(pool) - 1))
        qs.append(choice(["praised", "best_aspect", "liked"], ["What is praised?", "Which aspect does the author like [most|]?", "What was good?"], [(ch(ASP[a][0]), ["about the " + ASP[a][0][0]]) for a in o], 0, desc=.2))
    ks = ["product", "hotel", "restaurant", "app"]
    if len(sent) > 2 or kind in ("hotel", "restaurant"):
        if (kind != "product" and (kind != "app" or "app" in t)) or re.search("Bought|Ordered|Got", t): qs.append(choice(["subject", "reviewed_thing", "kind"], ["What is being reviewed?", "What kind of thing is the review about?"], [(x, {"product": ["a physical product"], "hotel": ["a hotel stay"], "restaurant": ["a restaurant visit"], "app": ["a mobile app"]}[x]) for x in ks], ks.index(kind), desc=.4))
    return wrap_text(t, ("review", "comment", "text")), qs


def d_vader():
    t, v = ch(D["vader"])
    s = max(0, min(4, 2 + v * .9))
    return wrap_text(t, ("comment", "text", "post", "review")), [sent_q(s), sent_q(s)]


# ------------------------------------------------------------------------------------------ logs and alerts
LOG = {
    "disk": (3, ["disk [full|usage at {pct}] on {serv}", "no space left on device: /var/log on {serv}", "filesystem /data is {pct} full"], ["disk", "storage", "disk space"]),
    "memory": (3, ["OutOfMemoryError: Java heap space in {serv}", "oom-killer killed process {big} on {serv}", "memory usage {pct} on {serv}"], ["memory", "ram", "out of memory"]),
    "network": (3, ["connection to {serv} timed out after {big} ms", "connection refused: {ip}:{big}", "packet loss {pct} between {city} and {city}", "DNS lookup failed for {serv}"], ["network", "connectivity", "networking"]),
    "auth": (2, ["failed login for user {name} from {ip}", "{n} failed password attempts for root from {ip}", "invalid token for user {name}", "permission denied for user {name} on /admin"], ["authentication", "login failure", "security", "access"]),
    "database": (3, ["deadlock detected in table orders", "slow query took {big} ms on {serv}", "replication lag of {big} seconds on {serv}", "too many connections to database {serv}"], ["database", "db", "sql"]),
    "cert": (2, ["TLS certificate for {serv} expires in {n} days", "certificate verify failed: self signed certificate on {serv}"], ["certificate", "tls", "ssl"]),
    "hardware": (4, ["CPU temperature {n}0 C on {serv}", "fan failure on {serv}", "power supply 2 failed on {serv}", "SMART error on /dev/sdb"], ["hardware", "device failure"]),
    "crash": (4, ["{serv} crashed with exit code {n}", "segmentation fault in {serv}", "panic: nil pointer dereference in {serv}", "{serv} restarted {n} times in the last hour", "service {serv} is down"], ["crash", "service down", "application error"]),
    "ok": (0, ["backup of {serv} finished in {big} seconds", "{serv} started successfully", "health check passed for {serv}", "user {name} logged in", "deployed version {n}.{n}.{n} of {serv}", "cache warmed for {serv}"], ["routine", "normal operation", "informational", "no problem"]),
}
LVL = {"DEBUG": 0, "INFO": 0, "NOTICE": 0, "WARN": 1, "WARNING": 1, "ERROR": 2, "CRITICAL": 3, "FATAL": 3, "ALERT": 3}


def d_log():
    k = ch(list(LOG)); msg = fill(ch(LOG[k][1]))
    lv = ch(["INFO", "DEBUG", "NOTICE"]) if k == "ok" else ch(["WARN", "WARNING", "ERROR", "ERROR", "CRITICAL", "FATAL"])
    sv = ch(SERV) if not any(s in msg for s in SERV) else next(s for s in SERV if s in msg)
    ts = "20%02d-%02d-%02dT%02d:%02d:%02d" % (ri(24, 27), ri(1, 12), ri(1, 28), ri(0, 23), ri(0, 59), ri(0, 59))
    st = ch(["line", "line", "json", "multi"])
    L_ = LVL[lv]
    if st == "json": state = {"timestamp": ts, "level": lv.lower() if pr(.5) else lv, "service": sv, "message": msg}
    else:
        state = "%s %s [%s] %s" % (ts, lv, sv, msg)
        if st == "multi":
            pre = [fill(ch(LOG["ok"][1]), serv=sv) for _ in range(ri(1, 3))]
            state = "\n".join("%s INFO [%s] %s" % (ts, sv, x) for x in pre) + "\n" + state
    qs = []
    n = ch([2, 3, 4])
    lvs = {2: [["no action needed", "harmless"], ["needs action", "a problem"]], 3: [["info", "harmless"], ["warning", "should be checked"], ["critical", "act now"]], 4: [["info"], ["warning"], ["error"], ["critical"]]}[n]
    pp = {2: [[1, 0], [.2, .8], [.03, .97], [0, 1]], 3: [[1, 0, 0], [.05, .9, .05], [0, .35, .65], [0, .03, .97]], 4: [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]}[n][L_]
    qs.append(score(["severity", "level", "impact", "priority"], ["How [severe|serious|bad] is [this|the event|the log line|the alert]?", "Severity of the event", "Rate the severity."], lvs, pp))
    names = list(LOG); idx = subset(len(names), names.index(k), 2, 7)
    qs.append(choice(["cause", "component", "category", "problem", "kind"], ["What [is the problem|kind of problem is it|caused the event]?", "Which [area|component] is [affected|the event about]?", "Classify the [log line|alert|event]."], [(ch(LOG[names[i]][2]), None) for i in idx], idx.index(names.index(k))))
    if sv in str(state):
        o = [sv] + R.sample([s for s in SERV if s != sv], ri(1, 5))
        qs.append(choice(["service", "host", "source", "system"], ["Which service [is affected|reported this|wrote the line]?", "Name the [service|system].", "Where did it happen?"], [(x, None) for x in o], 0, style=.55))
    qs.append(noul(["page", "alert", "needs_action", "wake_up"], ["Should [someone|the on-call engineer] be [paged|woken up|alerted]?", "Does this need [action|attention] [now|]?", "Is this a [serious|real] problem?"], [.01, .3, .85, .98][L_]))
    qs.append(noul(["security", "security_related", "is_attack"], ["Is [it|this|the event] [security related|a security problem|about security]?", "The event is security relevant.", "Could this be an attack?"], k in ("auth",) if k != "cert" else .5))
    return state, qs


# ------------------------------------------------------------------------------------------ JSON states
STAT = ["pending", "shipped", "delivered", "cancelled", "processing", "returned", "paid", "open", "closed", "failed"]


def cmp_q(path, v, unit=""):
    """numeric comparison about a JSON value"""
    for _ in range(5):
        if isinstance(v, float): lim = round(v * ch([.3, .5, .8, 1.25, 1.5, 2, 3]), ch([0, 0, 2]))
        else: lim = max(0, int(v * ch([.2, .5, .7, .9, 1.1, 1.3, 1.6, 2, 4]) + ch([-1, 0, 1])))
        if lim == int(lim): lim = int(lim)
        if lim != v: break
    up = pr(.5)
    w = ch(["above", "over", "greater than", "more than", "higher than", "larger than"]) if up else ch(["below", "under", "less than", "lower than", "smaller than"])
    truth = v > lim if up else v < lim
    i = ch(["Is [the|] {p} {w} {l}?", "The {p} is {w} {l}.", "Is {p} {w} {l}{u}?", "{p} {w} {l}?"])
    return noul([ident(path.split(".")[-1], 0) + "_check", "limit", "threshold", "over_limit" if up else "under_limit", "check"], [fill(i, p=path, w=w, l=lim, u=unit)], truth)


def val_q(path, v, distract):
    o = [str(v)] + [str(x) for x in distract if str(x) != str(v)]
    o = list(dict.fromkeys(o))
    if len(o) < 2: o.append("unknown")
    return choice([ident(path.split(".")[-1], 0), "value", "field_value", "answer"], [fill(ch(["What is the {p}?", "Which {p} [is given|does it have]?", "Give the {p}.", "Value of {p}", "What {p} is in the data?", "Read the field {p}."]), p=path)], [(x, None) for x in o[:8]], 0, style=.55)


def eq_q(path, v, alt):
    s = v if pr(.5) else alt
    return noul(["is_" + ident(str(s), 0), ident(path.split(".")[-1], 0) + "_matches", "check", "same"], [fill(ch(["Is the {p} {s}?", "The {p} is {s}.", "Is {p} equal to {s}?", 'Does {p} equal "{s}"?', "{p} = {s}?"]), p=path, s=str(s))], s == v)


def miss_q(obj, names):
    ms = [k for k in names if obj.get(k) in (None, "", [])]
    if len(ms) == 1 and len(names) > 2:
        o = [ms[0]] + R.sample([k for k in names if k != ms[0]], min(len(names) - 1, ri(1, 5)))
        return choice(["missing_field", "missing", "empty_field", "what_is_missing"], ["Which field is [missing|empty|not filled in]?", "What is missing?", "Which [information|value] is not given?"], [(x, None) for x in o], 0, style=.55)
    k = ch(names)
    return noul(["has_" + ident(k, 0), k + "_present", "complete"], ["Is the {k} [given|present|filled in]?".replace("{k}", k), "The {k} is known.".replace("{k}", k), "Does the record have a {k}?".replace("{k}", k)], k not in ms)


def d_order():
    st = ch(STAT); amt = ch([round(R.uniform(3, 2500), 2), ri(3, 2500)]); items = ri(1, 5)
    due = (ri(2024, 2027), ri(1, 12), ri(1, 28))
    td = due
    while td == due: td = (due[0] + ch([0, 0, 0, -1, 1]), max(1, min(12, due[1] + ch([0, 0, -1, 1, 2, -2]))), ri(1, 28))
    f = lambda d: "%04d-%02d-%02d" % d
    o = {"status": st, ch(["amount", "total", "price"]): amt, "currency": ch(["EUR", "USD", "GBP", "JPY"]), "customer": slot("full"), "city": slot("city"), "items": items, "due_date": f(due), "today": f(td), "paid": pr(.5), "express": pr(.5), "email": slot("email"), "phone": slot("phone"), "notes": ""}
    keys = list(o); R.shuffle(keys)
    keep = keys[: ri(4, len(keys))]
    for must in ("status",): keep = keep if must in keep else keep + [must]
    o = {k: o[k] for k in keep}
    for k in ("email", "phone", "city"):
        if k in o and pr(.2): o[k] = None
    qs = [eq_q("status", st, ch([x for x in STAT if x != st])), val_q("status", st, R.sample(STAT, ri(2, 5)))]
    ak = next((k for k in ("amount", "total", "price") if k in o), None)
    if ak: qs += [cmp_q(ak, amt), cmp_q(ak, amt)]
    if "items" in o: qs.append(cmp_q(ch(["number of items", "items", "item count"]), items))
    if "due_date" in o and "today" in o:
        qs += [noul(["overdue", "late", "is_overdue", "past_due"], ["Is the [order|payment|delivery|invoice] overdue?", "Has the due date passed?", "The due date is in the past.", "Is it late?"], td > due)] * 2
    if "paid" in o: qs.append(noul(["paid", "is_paid", "payment_done"], ["Has the [order|invoice] been paid?", "Is it paid?", "The customer has paid.", "Is the payment [complete|done]?"], o["paid"]))
    if "express" in o: qs.append(noul(["express", "is_express", "fast_delivery"], ["Is it an express [order|delivery]?", "Express delivery?", "Was express shipping chosen?"], o["express"]))
    if "currency" in o: qs.append(val_q("currency", o["currency"], ["EUR", "USD", "GBP", "JPY"]))
    if o.get("city"): qs.append(val_q("city", o["city"], R.sample(CITY, ri(1, 5))))
    qs.append(miss_q(o, [k for k in o if k not in ("paid", "express", "items", "notes")]))
    if st in ("cancelled", "delivered", "shipped", "pending", "processing", "failed"):
        act = {"cancelled": 2, "delivered": 2, "shipped": 1, "pending": 0, "processing": 0, "failed": 3}[st]
        qs.append(choice(["next_step", "action", "what_next"], ["What is the next step?", "What should be done [now|next]?", "Which action fits?"], [("prepare shipment", ["the order is not sent yet"]), ("wait for delivery", ["the order is on its way"]), ("nothing to do", ["the order is finished"]), ("contact customer", ["something went wrong"])], act))
    r = R.random()
    state = o if r < .6 else {"order": o, "id": ri(1000, 99999)} if r < .85 else json.dumps(o, indent=ch([None, 1])) if r < .95 else "\n".join("%s: %s" % kv for kv in o.items())
    return state, qs


def val(kind):
    if kind == "int": return ri(0, 20) if pr(.5) else ri(0, 1000)
    if kind == "float": return round(R.uniform(0, 200), ch([1, 2]))
    if kind == "bool": return pr(.5)
    if kind == "word": return slot("word")
    if kind == "name": return slot("full")
    if kind == "city": return slot("city")
    if kind == "color": return ch(COLORN)
    if kind == "null": return None


KEYS = {"int": "count age quantity score level points stock visits errors retries temperature speed distance rank votes seats floors pages employees limit".split(), "float": "weight height rating ratio voltage pressure humidity cost balance latency load area".split(),
        "bool": "active verified enabled admin premium locked archived visible public subscribed available insured".split(), "word": "type category label tag group mode material topic brand format".split(), "name": "owner author manager contact driver teacher seller".split(),
        "city": "city location origin destination hometown branch".split(), "color": "color background paint".split(), "null": "comment phone address website manager fax".split()}


def d_json():
    o, kinds = {}, {}
    for _ in range(ri(3, 9)):
        kd = ch(["int", "int", "float", "bool", "word", "name", "city", "color", "null"])
        k = ch(KEYS[kd]) if pr(.85) else slot("word").lower()
        if k in o: continue
        o[k] = val(kd); kinds[k] = kd
    path = {k: k for k in o}
    state = o
    r = R.random()
    if r < .25:
        outer = ch(["user", "device", "item", "record", "sensor", "employee", "building", "product", "vehicle"]); state = {outer: o, "id": ri(1, 9999)}
        if pr(.4): path = {k: outer + "." + k for k in o}
    elif r < .35: state = "\n".join("%s: %s" % (k, {True: "yes", False: "no", None: "-"}.get(v, v) if not isinstance(v, int) or isinstance(v, bool) else v) for k, v in o.items())
    elif r < .40: state = json.dumps(o)
    qs = []
    ks = list(o); R.shuffle(ks)
    for k in ks:
        v, kd, p = o[k], kinds[k], path[k]
        if kd in ("int", "float"):
            qs.append(cmp_q(p, v))
            if pr(.4): qs.append(val_q(p, v, [val(kd) for _ in range(ri(1, 5))] + [x for x, kk in ((o[z], kinds[z]) for z in o) if kk == kd]))
        elif kd == "bool":
            s = ch(["Is it {k}?", "Is the {o} {k}?", "{k}", "The record is {k}.", "Is {p} [true|set]?"])
            qs.append(noul([k, "is_" + k], [fill(s, k=k, p=p, o=ch(["user", "item", "record", "account"]))], v))
        elif kd == "null":
            qs.append(miss_q(o, list(o)))
        else:
            qs.append(val_q(p, v, [val(kd) for _ in range(ri(1, 6))]))
            if pr(.5): qs.append(eq_q(p, v, val(kd)))
    nums = [k for k in o if kinds[k] == "int"]
    if len(nums) >= 2:
        a, b = R.sample(nums, 2)
        if o[a] != o[b]:
            qs.append(noul(["compare", a + "_higher"], ["Is the %s [higher|larger|greater] than the %s?" % (path[a], path[b]), "%s > %s?" % (path[a], path[b])], o[a] > o[b]))
    return state, qs


def d_list():
    """a list of records: which one, how many"""
    n = ri(2, 6); nm = R.sample(NAMES, n); key = ch(["age", "score", "points", "salary", "orders", "tasks", "hours", "votes"])
    vals = R.sample(range(1, 100), n)
    attr = ch(["city", "team", "role"]); pool = {"city": CITY, "team": ["red", "blue", "green", "gold"], "role": ["admin", "editor", "viewer", "guest"]}[attr]
    rows = [{"name": a, key: v, attr: ch(pool)} for a, v in zip(nm, vals)]
    state = rows if pr(.6) else {"people": rows} if pr(.5) else "\n".join("%s: %s %s, %s %s" % (r["name"], key, r[key], attr, r[attr]) for r in rows)
    qs = []
    up = pr(.5); best = (max if up else min)(rows, key=lambda r: r[key])["name"]
    qs.append(choice(["who", "best", "winner", "name"], ["Who has the [%s] %s?" % ("highest|most|largest|biggest" if up else "lowest|smallest|fewest", key), "Which person has the %s %s?" % ("highest" if up else "lowest", key)], [(x, None) for x in nm], nm.index(best), style=.55))
    r = ch(rows)
    qs.append(choice([attr, "answer"], ["What is the %s of %s?" % (attr, r["name"]), "Which %s does %s have?" % (attr, r["name"]), "%s's %s" % (r["name"], attr)], [(x, None) for x in dict.fromkeys([r[attr]] + R.sample(pool, min(len(pool), ri(2, 4))))], 0, style=.55))
    qs.append(cmp_q("%s of %s" % (key, r["name"]), r[key]))
    x = ch(nm) if pr(.5) else ch(NAMES)
    qs.append(noul(["listed", "contains", "has_" + x.lower()], ["Is %s in the list?" % x, "The list contains %s." % x, "Is there a person named %s?" % x], x in nm))
    c = n
    lv = list(range(max(1, c - ri(0, 3)), c + ri(1, 4)))
    lv = lv if c in lv and len(lv) > 1 else [c, c + 1]
    qs.append(choice(["count", "how_many", "number"], ["How many [people|entries|records] are there?", "Number of [entries|people]"], [(str(i), None) for i in lv], lv.index(c), style=.55))
    y = ch(pool)
    qs.append(noul(["any_" + y.lower(), "someone"], ["Does anyone have the %s %s?" % (attr, y), "Is there a person with %s %s?" % (attr, y)], any(q[attr] == y for q in rows)))
    return state, qs


# ------------------------------------------------------------------------------------------ facts in text
EV = [
    ("{who} bought {k} {what} in {where} on {when}.", "buy", "bought"), ("On {when}, {who} sold {k} {what} at the market in {where}.", "sell", "sold"), ("{who} will bring {k} {what} to {where} on {when}.", "bring", "will bring"),
    ("Last {when} {who} lost {k} {what} near {where}.", "lose", "lost"), ("{who} ordered {k} {what}; they will be sent to {where} on {when}.", "order", "ordered"), ("In {where}, {who} found {k} {what} on {when}.", "find", "found"),
    ("{who} repaired {k} {what} for a museum in {where}. The work was finished on {when}.", "repair", "repaired"), ("{who} borrowed {k} {what} from a school in {where} and must return them by {when}.", "borrow", "borrowed"),
]


def d_fact():
    n = ri(1, 3); ev = []
    for t, vb, vp in R.sample(EV, n):
        ev.append(dict(who=ch(NAMES), what=slot("obj"), where=slot("city"), when=slot("day"), k=ri(2, 60), t=t, vb=vb, vp=vp))
    if len({e["who"] for e in ev}) < n or len({e["what"] for e in ev}) < n: ev = ev[:1]
    t = " ".join(e["t"].format(**{k: e[k] for k in ("who", "what", "where", "when", "k")}) for e in ev)
    e = ch(ev); qs = []
    wh = lambda pool, v, extra: list(dict.fromkeys([v] + extra + R.sample(pool, ri(1, 4))))
    qs.append(choice(["who", "person", "name"], ["Who %s the %s?" % (e["vp"], e["what"]), "Which person %s %s?" % (e["vp"], e["what"])], [(x, None) for x in wh(NAMES, e["who"], [x["who"] for x in ev])], 0, style=.55))
    qs.append(choice(["where", "place", "city"], ["[Where|In which city] [did it happen|was it] with the %s?" % e["what"], "Which place belongs to the %s?" % e["what"], "Where are the %s?" % e["what"]], [(x, None) for x in wh(CITY, e["where"], [x["where"] for x in ev])], 0, style=.55))
    qs.append(choice(["when", "day", "weekday"], ["On which day [was|is] it for %s?" % e["who"], "Which weekday is named with the %s?" % e["what"], "When?" if len(ev) == 1 else "When for %s?" % e["who"]], [(x, None) for x in wh(DAYS, e["when"], [x["when"] for x in ev])], 0, style=.55))
    qs.append(choice(["what", "object", "item"], ["What %s %s %s?" % (("does", e["who"], e["vb"]) if "will" in e["vp"] else ("did", e["who"], e["vb"])), "Which objects belong to %s?" % e["who"]], [(x, None) for x in wh(OBJ, e["what"], [x["what"] for x in ev])], 0, style=.55))
    qs.append(choice(["how_many", "count", "number", "quantity"], ["How many %s [are mentioned|are there|were it]?" % e["what"], "Number of %s" % e["what"]], [(str(x), None) for x in dict.fromkeys([e["k"]] + [x["k"] for x in ev] + [ri(2, 60) for _ in range(ri(1, 4))])], 0, style=.55))
    qs.append(cmp_q("number of " + e["what"], e["k"]))
    w = e["who"] if pr(.5) else ch(NAMES)
    qs.append(noul(["involved", "mentioned", "check"], ["Is %s mentioned?" % w, "Does the text [mention|talk about] %s?" % w, "%s appears in the text." % w], w in t))
    c = e["where"] if pr(.5) else ch(CITY)
    qs.append(noul(["in_" + c.lower(), "city_check"], ["Does it [happen|take place] in %s?" % c, "Is %s the place?" % c, "Is the city %s named?" % c], c in t))
    return wrap_text(t), qs


NUM = [("The temperature [is|was] {v} degrees", "the limit is {l} degrees", "temperature", "limit"), ("The truck [weighs|carries] {v} tons", "the bridge allows {l} tons", "weight", "allowed weight"), ("The ticket costs {v} euros", "the budget is {l} euros", "cost", "budget"),
       ("The [meeting room holds|room has] {l} seats", "{v} people have registered", "number of people", "capacity"), ("The file has {v} MB", "the maximum upload size is {l} MB", "file size", "maximum"), ("The car was driving {v} km/h", "the speed limit was {l} km/h", "speed", "speed limit"),
       ("The applicant is {v} years old", "the maximum age is {l}", "age", "maximum age"), ("The response took {v} ms", "the target is {l} ms", "response time", "target"), ("The parcel weighs {v} kg", "at most {l} kg can be shipped", "weight", "maximum weight"), ("The server uses {v} GB of memory", "{l} GB are installed", "memory use", "installed memory")]


def d_num():
    a, b, nm, lim = ch(NUM); m = ch([20, 100, 100, 1000, 5000]); v, l = ri(1, m), ri(1, m)
    while v == l: l = ri(1, m)
    if pr(.4): l = max(1, v + ch([-1, 1]) * ri(1, max(2, v // 4)))
    if l == v: l += 1
    x, y = fill(a, v=v, l=l), fill(b, v=v, l=l)
    t = (x + ch([" and ", ", ", "; ", ", but "]) + y + ".") if pr(.7) else y[0].upper() + y[1:] + ". " + x + "."
    over = v > l
    qs = [noul(["exceeded", "over_limit", "too_much", "too_high", "violation"], ["Is the %s [exceeded|too high|over the limit]?" % nm if "exceed" not in nm else "", "Is the %s above the %s?" % (nm, lim), "The %s is higher than the %s." % (nm, lim), "Is the %s exceeded?" % lim], over),
          noul(["within", "allowed", "ok", "acceptable"], ["Is the %s within the %s?" % (nm, lim), "Is [it|this] [allowed|acceptable|fine]?", "The %s is below the %s." % (nm, lim), "Does it fit?"], not over),
          choice(["larger", "which_is_larger", "bigger"], ["Which [number|value] is [larger|higher]?"], [(nm, None), (lim, None)], 0 if over else 1),
          val_q(nm, v, [l, ri(1, m), ri(1, m)]), val_q(lim, l, [v, ri(1, m), ri(1, m)]), cmp_q(nm, v)]
    return wrap_text(t), qs


# ------------------------------------------------------------------------------------------ own families, topics in context
FAMQ = {"topic": (["topic", "subject", "theme", "category", "section"], ["What is the text about?", "Which topic [fits|does the text belong to]?", "Topic of the [text|article|sentence|headline]", "In which section should the article appear?", "[Classify|Categorise] the [text|article]."]),
        "sentiment": (["sentiment", "polarity"], ["What is the sentiment?", "Classify the sentiment."]), "support": (["issue", "category", "team", "request_type"], ["What does the customer need?", "Which kind of request is it?", "What is the message about?", "Which department should answer?"]),
        "emotion": (["emotion", "feeling", "mood"], ["Which emotion is expressed?", "What does the [writer|speaker|author] feel?", "Emotion of the text"]), "intent": (["intent", "action", "command", "skill"], ["What does the user want?", "Which intent is it?", "What should the assistant do?", "[Detect|Pick] the intent."]),
        "urgency": (["urgency", "priority"], ["How urgent is it?"]), "spam": (["spam", "kind"], ["Is it spam?", "What kind of message is it?"]), "act": (["act", "type", "sentence_type"], ["Is it a question, a statement or a request?", "What kind of sentence is it?", "Sentence type"]),
        "language": (["language"], ["Which language is it?"]), "toxicity": (["tone", "toxicity"], ["Is the message toxic?", "How does the writer treat the other person?"])}
FAMNOUL = {"topic": ["Is the text about {x}?", "The text is about {x}.", "Does it belong to the topic {x}?"], "emotion": ["Does the writer express {x}?", "The speaker feels {x}."], "intent": ["Does the user want to: {x}?", "Is the intent {x}?"], "support": ["Is it about {x}?", "The customer's issue is {x}."], "act": ["Is it a {x}?"], "sentiment": ["Is the sentiment {x}?"]}
XL = ["de", "fr", "es", "ru", "zh"]


def fam_q(fam, canon, lang):
    F = own.FAMILIES[fam]; c = next(i for i, g in enumerate(F) if g[0] == canon)
    ids, ins = FAMQ[fam]
    if fam in FAMNOUL and pr(.3):
        o = c if pr(.5) else ri(0, len(F) - 1)
        x = ch(F[o])
        return noul(["is_" + ident(x, 0), "matches", "check", ident(x, 0)], [ch(FAMNOUL[fam]).replace("{x}", x)], o == c)
    idx = subset(len(F), c, 2, 12)
    tr = lang in XL and pr(.5)
    opts = []
    for i in idx:
        nm = F[i][0] if pr(.5) else ch(F[i])
        d = [", ".join(R.sample(F[i], min(len(F[i]), 2))), "about " + ch(F[i])] if len(F[i]) > 1 else None
        if tr and F[i][0] in own.GLOSSARY: nm = own.GLOSSARY[F[i][0]].get(lang, nm)
        opts.append((nm, d))
    return choice(ids, ins, opts, idx.index(c), desc=.35)


def d_family():
    t, l, fam, pos = ch(D["own"][ch(D["ownfams"])])
    qs = [fam_q(fam, pos[0], l), fam_q(fam, pos[0], l)]
    if l in LANGN: qs.append(lang_q(l))
    if fam == "urgency": qs.append(noul(["urgent", "is_urgent"], ["Is it urgent?", "Does this need [fast|immediate] attention?"], pos[0] == "urgent"))
    if fam == "spam": qs += [noul(["spam", "is_spam", "junk"], ["Is [it|this|the message] spam?", "The message is [spam|junk|unwanted advertising].", "Should the message be filtered out?"], pos[0] == "spam")] * 2
    if fam == "toxicity": qs += [noul(["toxic", "is_toxic", "offensive", "flag"], ["Is [it|the message|the comment] [toxic|offensive|insulting]?", "The comment insults someone.", "Should the comment be removed?"], pos[0] == "toxic")] * 2
    if fam == "sentiment": qs += [sent_q({"positive": 3.7, "negative": .3, "neutral": 2}[pos[0]])] * 2
    if fam == "act": qs.append(noul(["question", "is_question"], ["Is it a question?", "The text asks something."], pos[0] == "question"))
    return wrap_text(t), qs


# ------------------------------------------------------------------------------------------ email and moderation
MAIL = {
    "spam": ["Congratulations! You have won {price}. Click here to claim your prize now.", "Lose {n} kg in {n} days with this miracle pill!", "Make {price} a day working from home, no experience needed!", "Cheap [pills|watches|loans], best prices, buy now!!!", "You are the lucky winner of a free {prod}. Reply with your bank details.", "Exclusive offer: {pct} off everything, only today, click now!", "Double your [bitcoin|money] in 24 hours, guaranteed."],
    "phishing": ["Your [bank|mail|cloud] account will be suspended. Verify your password at http://secure-{word}.example immediately.", "We detected unusual activity. Confirm your card number [here|at the link below] within 24 hours.", "Your parcel is on hold, pay a fee of {price} with your card details at http://{word}-post.example.", "IT department: your mailbox is full, log in here with your password to keep it.", "This is the CEO. Buy gift cards for {price} and send me the codes, keep it secret."],
    "meeting": ["Can we meet on {day} at {time} to discuss the [budget|project|report]?", "The team meeting is moved to {day}, {time}.", "Are you free for a call on {day}?", "Invitation: planning session on {day} in room {n}.", "Let us schedule the interview for {day} {time}."],
    "invoice": ["Please find attached invoice {ord} over {price}, due on {month} {n}.", "This is a reminder that invoice {ord} is still unpaid.", "Your receipt for {price}: thank you for your payment.", "Attached is the bill for {month}."],
    "newsletter": ["Our {month} newsletter: new articles, tips and upcoming events.", "This week in [technology|science|travel]: {n} stories you should read.", "You receive this mail because you subscribed to our monthly news."],
    "application": ["I would like to apply for the position of [accountant|developer|nurse|designer]. My CV is attached.", "Please consider my application for the [internship|job] in {city}.", "I have {n} years of experience and am looking for a new job in your company."],
    "personal": ["Happy birthday, {name}! See you at the party on {day}.", "Mom, I arrived safely in {city}. Love, {name}", "Do you want to go hiking with us on {day}?", "Thanks for the lovely dinner yesterday!"],
    "order": ["Your order {ord} has been shipped and will arrive on {day}.", "Thank you for your order of a {prod}.", "Your {prod} is ready for pick-up in {city}."],
}
MAILN = {"spam": (["spam", "junk", "advertising"], ["unwanted bulk mail"]), "phishing": (["phishing", "fraud", "scam"], ["tries to steal passwords or money"]), "meeting": (["meeting", "appointment", "calendar"], ["about a date or a call"]), "invoice": (["invoice", "bill", "payment"], ["bills and receipts"]), "newsletter": (["newsletter", "news"], ["regular news to subscribers"]),
         "application": (["job application", "recruiting", "application"], ["someone applies for a job"]), "personal": (["personal", "private", "family and friends"], ["private message"]), "order": (["order", "order status", "purchase"], ["order confirmation or delivery notice"])}


def d_mail():
    k = ch(list(MAIL)); t = fill(ch(MAIL[k])); names = list(MAIL)
    idx = subset(8, names.index(k), 2, 8)
    qs = [choice(["kind", "folder", "category", "mail_type", "label"], ["What kind of [mail|message|email] is it?", "Which folder [fits|does it belong to]?", "Sort the [mail|email].", "Classify the email."], [(ch(MAILN[names[i]][0]), MAILN[names[i]][1]) for i in idx], idx.index(names.index(k)), desc=.4)]
    bad = k in ("spam", "phishing")
    qs.append(noul(["spam", "is_spam", "junk", "unwanted"], ["Is [it|this|the mail|the email] spam?", "Is the [mail|message] unwanted?", "The message is spam or a scam."], bad))
    qs.append(noul(["phishing", "scam", "suspicious", "dangerous"], ["Is [it|this] a phishing attempt?", "Does the sender try to [steal|get] [passwords or money|card data]?", "Is the mail suspicious?"], k == "phishing" if k != "spam" else .55))
    qs.append(noul(["reply_needed", "needs_answer"], ["Does the [mail|message] need a reply?", "Is an answer expected?"], {"spam": 0, "phishing": 0, "newsletter": 0, "order": .05, "invoice": .15, "personal": .5, "meeting": .9, "application": .95}[k]))
    if k in ("meeting",): qs.append(noul(["date_mentioned", "has_date"], ["Is a [day|date] mentioned?"], any(d in t for d in DAYS)))
    state = wrap_text(t, ("body", "text", "message"))
    if isinstance(state, str) and pr(.3): state = {"from": slot("email"), "subject": ch(["Hello", "Important", "Info", "Re: question", "(no subject)", "News"]), "body": t}
    return state, qs


MODN = {
    "insult": ["You are [such an idiot|so stupid|a complete moron|a loser].", "Only an idiot would write something like this.", "Shut up, nobody wants to hear from you.", "What a pathetic clown you are.", "You are dumb as a brick."],
    "threat": ["I will find you and [hurt you|make you pay].", "Watch your back, I know where you live.", "You will regret this, I am coming for you.", "If you post again I will break your [legs|car]."],
    "pii": ["Call {full} at {phone}.", "His address is {n} Main Street, {city}, and his phone number is {phone}.", "Write to {email} for details.", "Her email is {email}, go and bother her."],
    "promo": ["Buy followers at www.{word}.example, best price!", "Check out my channel and subscribe, link in bio!", "Use my code {word}{n} for {pct} off!", "Visit my shop at http://{word}.example for cheap {obj}!"],
    "ok": ["I think the second chapter explains it better.", "Thanks for the explanation, that helped me a lot.", "Could you share the recipe for the {dish}?", "I disagree, but I see your point.", "Great photo, where was it taken?", "The bus to {city} leaves at {time}.", "Has anyone tried the new {prod}?", "We planted {n} trees on {day}.", "I respectfully think this is wrong."],
}


def d_mod():
    k = ch(["insult", "threat", "pii", "promo", "ok", "ok", "ok"]); t = fill(ch(MODN[k]))
    if pr(.3): t = fill(ch(MODN["ok"])) + " " + t if pr(.5) else t + " " + fill(ch(["Just saying.", "Seen on {day}.", "Greetings from {city}."]))
    nm = {"insult": (["insult", "harassment", "abuse"], ["attacks or insults a person"]), "threat": (["threat", "violence"], ["threatens somebody"]), "pii": (["personal data", "privacy", "private information"], ["reveals phone, address or email"]), "promo": (["advertising", "self promotion", "spam"], ["promotes a shop or channel"]), "ok": (["allowed", "fine", "no violation", "ok"], ["nothing wrong with it"])}
    names = list(nm); idx = subset(5, names.index(k), 2, 5)
    qs = [choice(["violation", "rule", "label", "category", "verdict"], ["Which rule is [violated|broken]?", "[Moderate|Classify] the comment.", "What is wrong with the [post|comment]?", "Moderation label"], [(ch(nm[names[i]][0]), nm[names[i]][1]) for i in idx], idx.index(names.index(k)), desc=.5),
          noul(["remove", "block", "flag", "violates_rules"], ["Should the [comment|post] be [removed|blocked|flagged]?", "Does the [comment|post] break the rules?", "Is the content [harmful|unacceptable]?"], k != "ok" if k != "pii" else .85),
          noul(["insult", "toxic", "abusive"], ["Does the [comment|text] insult someone?", "Is the [comment|text] toxic?", "Is the language abusive?"], k == "insult" if k != "threat" else .75),
          noul(["threat", "violent"], ["Is there a threat?", "Does the writer threaten someone?", "The text contains a threat of violence."], k == "threat"),
          noul(["pii", "personal_data", "contains_contact"], ["Does the text contain [personal data|contact details|a phone number or email]?", "Is private information revealed?"], k == "pii"),
          score(["harm", "severity", "risk"], ["How harmful is [it|the comment|the post]?", "Rate the [harm|risk]."], [["none", "harmless"], ["[mild|minor]", "questionable"], ["severe", "dangerous"]], {"ok": [.97, .03, 0], "promo": [.2, .75, .05], "pii": [.03, .62, .35], "insult": [.02, .68, .3], "threat": [0, .08, .92]}[k])]
    return wrap_text(t, ("comment", "post", "text")), qs


# ------------------------------------------------------------------------------------------ real texts
def d_mention():
    t = ch(D["texts_en"]) if pr(.8) else ch(D["bylang"][ch(list(LANGN))])
    ws = [w for w in re.findall(r"[^\W\d_]{4,}", t)]
    if len(ws) < 3: return d_fact()
    w = ch(ws)
    other = ch(re.findall(r"[^\W\d_]{4,}", ch(D["texts_en"])) or ["zebra"])
    qs = []
    for _ in range(2):
        x = ch(ws) if pr(.5) else other
        qs.append(noul(["mentions", "contains", "word_present", "has_word"], ['Does the text [contain|mention] [the word|] "%s"?' % x, "Is the word %s in the text?" % x, "The text mentions %s." % x, 'The word "%s" appears.' % x], x.lower() in t.lower()))
    o = list(dict.fromkeys([w] + [ch(re.findall(r"[^\W\d_]{4,}", ch(D["texts_en"])) or ["zebra"]) for _ in range(ri(1, 5))]))
    o = [w] + [x for x in o[1:] if x.lower() not in t.lower()]
    if len(o) > 1: qs.append(choice(["which_word", "word", "term"], ["Which word [occurs|appears] in the text?", "Which of these words is used?"], [(x, None) for x in o], 0, style=.55))
    dg = any(c.isdigit() for c in t)
    qs.append(noul(["has_number", "digits"], ["Does the text contain a [number|digit]?", "Is there a number in the text?"], dg))
    return wrap_text(t), qs


def d_wordnet():
    w = D["wn"]; a = ch(w)
    k = ri(2, 7); others = [ch(w) for _ in range(k)]
    o = [a] + [x for x in others if x[0] != a[0]]
    if pr(.4):
        return a[1], [choice(["word", "term", "concept"], ["Which word [fits|matches] the definition?", "What is defined [here|]?", "Pick the word with this meaning."], [(x[0], None) for x in o], 0, style=.55)]
    if pr(.5) and a[2]:
        o2 = list(dict.fromkeys([a[2]] + [x[2] for x in others if x[2]]))
        return a[0] + ": " + a[1], [choice(["kind", "class", "hypernym", "type"], ["What kind of thing is it?", "Which class does it belong to?", "It is a kind of"], [(x, None) for x in o2], 0, style=.55)] if len(o2) > 1 else [noul(["is_" + ident(a[2], 0)], ["Is it a kind of %s?" % a[2]], 1)]
    x = a if pr(.5) else ch(w)
    qs = [noul(["same", "matches", "definition_fits"], ['Is this a definition of "%s"?' % x[0], "The text defines %s." % x[0]], x[0] == a[0])]
    if pr(.5):
        return a[0], [choice(["meaning", "definition", "sense"], ["What does the word mean?", "Pick the right definition."], [(chr(65 + i), [y[1][:90]]) for i, y in enumerate(o[:4])], 0, desc=2)]
    return a[1], qs


def d_distill():
    """teacher-labelled choice over topics"""
    E = D["emb"]; i = int(R.random() * len(D["T"])); r = D["T"][i]
    k = 2 + int(R.random() ** 1.3 * 10)
    cand = []
    top = D["top"][i]
    if pr(.8): cand.append(int(top[int(R.random() ** 2 * 8)]))
    while len(cand) < k:
        u = R.random()
        if u < .2: c = int(top[int(R.random() * len(top))])
        elif u < .5: c = int(D["top"][int(R.random() * len(D["T"]))][int(R.random() * 16)])
        else: c = int(R.random() * len(D["L"]))
        if c not in cand: cand.append(c)
    R.shuffle(cand)
    z = (E[0][i].astype(np.float32) @ E[1][cand].astype(np.float32).T - D["mu"][i]) / D["sd"][i] - .8 * D["hub"][cand]
    for j, c in enumerate(cand):
        if D["L"][c] in r["p"]: z[j] = max(z[j] * .5 + 2, 2.6)
    p = np.exp(1.8 * (z - z.max())); p /= p.sum()
    names = [D["L"][c] for c in cand]
    if len(set(names)) < len(names): return d_distill()
    if pr(.2):
        j = int(p.argmax()) if pr(.5) else ri(0, len(names) - 1)
        y = float(1 / (1 + np.exp(-(2.2 * (z[j] - 1.9)))))
        return wrap_text(r["t"]), [noul(["about", "relevant", "related", "topic_match"], ["Is the text about %s?" % names[j], "Is it related to %s?" % names[j], "The text is about %s." % names[j], "Topic: %s?" % names[j]], y)], ("d", i, None)
    if pr(.14):
        lt = list(string.ascii_uppercase[: len(names)]) if pr(.5) else ["option%d" % (j + 1) for j in range(len(names))]
        cr = {l: fill(ch(["{x}", "{x}", "about {x}", "texts about {x}", "the topic is {x}"]), x=n) for l, n in zip(lt, names)}
        ks = list(cr); R.shuffle(ks)
        q = ("topic", {"type": "choice", "criteria": {k_: cr[k_] for k_ in ks}, "instructions": ch(["Which description fits best?", "What is the text about?", "Topic of the text", "Pick the best option."])}, dict(zip(lt, p.tolist())))
        return wrap_text(r["t"]), [q], ("d", i, None)
    q = choice(["topic", "label", "category", "theme", "subject", "best_match"], ["What is [the text|it] about?", "Which [label|topic|category] fits [best|]?", "Topic of the text", "[Pick|Choose] the best matching label.", "Which of these is most closely related to the text?"], [(n, None) for n in names], p.tolist(), style=.55)
    return wrap_text(r["t"]), [q], ("d", i, {n: c for n, c in zip(names, cand)})


def d_debian():
    t, sec = ch(D["deb"]); secs = D["secs"]
    o = [sec] + R.sample([s for s in secs if s != sec], ri(1, 8))
    return wrap_text(t, ("description", "text", "summary")), [choice(["category", "section", "kind", "area"], ["Which category does the software belong to?", "What is the program for?", "Area of the package", "Which section fits?"], [(x, None) for x in o], 0)]


# ------------------------------------------------------------------------------------------ assistants
TOOLS = {"calculator": (["do arithmetic", "compute numbers"], ["What is {n} times {big}?", "Add {big} and {big}.", "How much is {pct} of {big}?"]), "web_search": (["look something up on the web"], ["Who won the [match|election] yesterday?", "Find recent news about {city}.", "Search for reviews of the {prod}."]), "calendar": (["read or change appointments"], ["Book a meeting with {name} on {day}.", "What appointments do I have on {day}?", "Move my dentist visit to {time}."]),
         "send_email": (["write and send an email"], ["Write to {email} that I will be late.", "Send {name} the report by mail.", "Email the team about the meeting on {day}."]), "weather": (["weather forecast"], ["Will it rain in {city} on {day}?", "How warm is it in {city}?", "Do I need an umbrella tomorrow?"]), "translate": (["translate between languages"], ["How do you say thank you in [French|German|Chinese]?", "Translate this letter into Spanish."]),
         "play_music": (["play songs"], ["Play some [jazz|rock|piano music].", "Put on my running playlist."]), "run_sql": (["query the database"], ["How many orders did we get in {month} per country?", "List all customers from {city} in the table."]), "set_timer": (["timers and alarms"], ["Wake me at {time}.", "Set a timer for {n} minutes."]), "read_file": (["open a document"], ["Open the file report{n}.pdf and summarise it.", "What does the document notes.txt say?"]), "turn_on_light": (["smart home lights"], ["Switch on the lamp in the [kitchen|bedroom].", "It is too dark in here."])}


def d_agent():
    k = ch(list(TOOLS)); t = fill(ch(TOOLS[k][1])); names = list(TOOLS); idx = subset(len(names), names.index(k), 2, 9)
    qs = [choice(["tool", "function", "next_tool", "action", "skill"], ["Which tool should [be called|the assistant use]?", "[Pick|Select] the [tool|function].", "What should the agent do?", "Which function handles the request?"], [(names[i], TOOLS[names[i]][0]) for i in idx], idx.index(names.index(k)), desc=.55)]
    x = k if pr(.5) else ch(names)
    qs.append(noul(["needs_" + x, "use_" + x, "tool_needed"], ["Is the tool %s needed?" % x, "Should %s be called?" % x.replace("_", " ")], x == k))
    qs.append(noul(["question", "is_question"], ["Is it a question?", "Does the user ask a question?"], t.endswith("?")))
    return (t if pr(.5) else [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": t}] if pr(.5) else {"user": t, "history": []}), qs


def d_chat():
    cat = ch(list(SUP)); iss = fill(ch(SUP[cat][1]))
    ok = pr(.5)
    a1 = fill(ch(["I am sorry to hear that. Let me check.", "Thanks for writing, I will look into it.", "Could you tell me your customer number?", "One moment please."]))
    u2 = fill(ch(["It is {big}.", "Sure, order {ord}.", "Okay.", "Yes, please."]))
    a2 = fill(ch(["I have fixed it, could you try again?", "It is done, you should see it now.", "I have forwarded this to my colleague."]))
    u3 = fill(ch(["[Great|Perfect|Wonderful], it works now, thank you!", "That solved it, thanks!", "Yes, all good now."] if ok else ["No, it still does not work.", "That did not help at all.", "The problem is still there!", "Nothing has changed, I want to talk to a manager."]))
    m = [("user", iss), ("agent", a1), ("user", u2), ("agent", a2), ("user", u3)]
    sysn = ch([("user", "agent"), ("user", "assistant"), ("customer", "support")])
    state = [{"role": sysn[r == "agent"], ch(["content"]): c} for r, c in m]
    if pr(.3): state = "\n".join("%s: %s" % (x["role"].capitalize(), x["content"]) for x in state)
    elif pr(.3): state = {"messages": state}
    qs = [noul(["resolved", "solved", "issue_fixed"], ["Is the [problem|issue] [solved|resolved]?", "Was the customer helped?", "The issue has been resolved.", "Is the customer satisfied at the end?"], ok), team_q(cat),
          choice(["outcome", "status", "result"], ["How did the conversation end?", "Status of the [case|conversation]"], [("solved", ["the problem is fixed"]), ("unsolved", ["the problem remains"])] + ([("not started", ["nobody answered"])] if pr(.4) else []), 0 if ok else 1),
          noul(["escalate", "manager", "needs_human"], ["Should the case be escalated?", "Is further help needed?"], not ok),
          score(["satisfaction", "happiness"], ["How satisfied is the customer [at the end|]?"], [["unhappy", "dissatisfied"], ["neutral"], ["happy", "satisfied"]], [0, .05, .95] if ok else [.93, .07, 0])]
    return state, qs



# ------------------------------------------------------------------------------------------ emotions and purposes
EMO = {
    "joy": (["joy", "happiness", "happy"], ["I [can't stop smiling|could hug the whole world] today!", "We won the [cup|contest|prize], what a day!", "My [daughter|son|sister] was born this morning, I am over the moon.", "I passed the exam, hooray!", "What a wonderful [evening|party|surprise], I laughed so much!", "I finally got the [job|place|visa], let's celebrate!", "Best holiday ever, I feel so light and free.", "The kids jumped with delight when the {prod} arrived."]),
    "sadness": (["sadness", "grief", "sad"], ["I miss my [grandmother|old dog|best friend] so much.", "Since she left the house feels empty.", "I cried all night.", "Our cat died on {day}.", "Nobody came to my birthday.", "I feel so lonely in {city}.", "He will never come back, and it hurts.", "I look at the old photos and tears come to my eyes.", "We had to say goodbye for ever."]),
    "anger": (["anger", "rage", "fury"], ["How dare they [lie to me|charge me again|ignore me]!", "I am so mad I could scream!", "He scratched my car and drove away, that [jerk|coward]!", "This is the third time they cancelled, I am boiling!", "I'm sick of your excuses!", "They cheated us, it is outrageous!", "My blood boils when I think of that [meeting|decision]."]),
    "fear": (["fear", "anxiety", "worry"], ["I am [afraid|scared|terrified] of the operation on {day}.", "There are strange noises in the cellar and I dare not go down.", "My hands shake when I think about the exam.", "What if I lose my job and the house?", "I can't sleep, I keep thinking something bad will happen.", "The dog growled and I froze.", "I am nervous about flying to {city}."]),
    "surprise": (["surprise", "amazement", "astonishment"], ["Wow, I never expected that!", "You are moving to {city}? I had no idea!", "Out of nowhere {name} stood at my door!", "I could not believe my eyes when I opened the box.", "What? {n} people came? Unbelievable!", "I was speechless when I heard the result."]),
    "disgust": (["disgust", "revulsion"], ["There was a cockroach in my soup, yuck.", "The smell of the rotten fish made me sick.", "Eww, who left mouldy bread in the drawer?", "That film was so gross I had to look away.", "The toilet was filthy, I nearly vomited."]),
    "love": (["love", "affection", "tenderness"], ["You are the best thing that ever happened to me.", "I want to grow old with you, {name}.", "My heart beats faster when I see you.", "Good night my darling, I am thinking of you.", "I adore my little niece."]),
    "gratitude": (["gratitude", "thankfulness", "thanks"], ["Thank you so much for [your help|standing by me|the lift to {city}].", "I don't know how to repay you, {name}.", "I am so grateful that you came.", "Many thanks to everyone who donated.", "I really appreciate what you did for us."]),
    "boredom": (["boredom", "bored"], ["Nothing to do again, this day never ends.", "The lecture went on and on and I yawned for {n} minutes.", "Same old routine every single day.", "So dull, I counted the tiles on the ceiling."]),
    "neutral": (["neutral", "no emotion", "factual"], ["The shop opens at {time}.", "The table is {n} cm wide.", "Please send the form by {day}.", "The train to {city} has {n} coaches.", "The report has {n} pages.", "Add water and stir."]),
}
PURP = {
    "question": (["question", "asks something", "asking for information"], ["When does the museum in {city} open?", "Does anyone know how to [fix|clean|open] a {prod}?", "Where can I buy {obj} in {city}?", "How long does it take to get to {city}?", "What is the best way to learn [chess|French|the piano]?", "Is the pool open on {day}?"]),
    "complaint": (["complaint", "criticism", "complains"], ["The lift has been broken for {n} days and nobody cares.", "Again no hot water in the house.", "The neighbours play loud music every night.", "I waited {n} minutes and nobody served me.", "The street lights in our road never work."]),
    "praise": (["praise", "compliment", "positive feedback"], ["You did a fantastic job with the new park.", "Great work by the whole team!", "The new teacher is wonderful, our kids love her.", "Compliments to the chef.", "The new bus line is a real improvement."]),
    "request": (["request", "asks someone to do something", "order"], ["Please send me the [photos|documents|keys] by {day}.", "Could you water my plants while I am in {city}?", "Book a table for {n} people.", "Turn the heating down, please.", "Bring {n} {obj} when you come."]),
    "announcement": (["announcement", "information", "news"], ["The library will be closed on {day}.", "From {month} on, the bus to {city} runs every {n} minutes.", "We are moving to a new office in {city}.", "The market takes place on {day}.", "The new {prod} goes on sale in {month}."]),
    "apology": (["apology", "says sorry"], ["I am so sorry I forgot your birthday.", "Please forgive me for being late.", "We apologise for the delay.", "My mistake, I should have called you."]),
    "invitation": (["invitation", "invites somebody"], ["Come to our party on {day}!", "Would you like to join us for dinner on {day}?", "You are invited to the opening in {city}.", "Let's meet at the cinema at {time}, are you in?"]),
    "thanks": (["thanks", "gratitude"], ["Thanks for the cake!", "Thank you for helping me move.", "Many thanks for the quick answer."]),
}


def d_emotion():
    k = ch(list(EMO)); t = fill(ch(EMO[k][1])); names = list(EMO); idx = subset(len(names), names.index(k), 2, 9)
    qs = [choice(["emotion", "feeling", "mood"], ["[Which|What] emotion [is expressed|does the text express]?", "What does the [writer|author|speaker] feel?", "Emotion of the text", "How does the person feel?"], [(ch(EMO[names[i]][0]), None) for i in idx], idx.index(names.index(k)))] * 2
    x = k if pr(.5) else ch(names); w = ch(EMO[x][0])
    qs.append(noul(["is_" + ident(w, 0), "emotion_check", ident(w, 0)], ["Does the [writer|author] express %s?" % w, "The text expresses %s." % w, "Is %s the dominant emotion?" % w], x == k))
    v = {"joy": 4, "love": 3.8, "gratitude": 3.7, "neutral": 2, "surprise": 2.4, "boredom": 1, "fear": .8, "sadness": .5, "disgust": .3, "anger": .2}[k]
    qs.append(sent_q(v))
    return wrap_text(t), qs


def d_purpose():
    k = ch(list(PURP)); t = fill(ch(PURP[k][1])); names = list(PURP); idx = subset(len(names), names.index(k), 2, 8)
    qs = [choice(["purpose", "kind", "message_type", "speech_act", "what_does_the_writer_do"], ["What is the purpose of the [message|text]?", "What [does the writer do|is the writer doing]?", "What kind of message is it?", "[Classify|Label] the message."], [(ch(PURP[names[i]][0]), None) for i in idx], idx.index(names.index(k)))]
    x = k if pr(.5) else ch(names); w = ch(PURP[x][0][:1])
    qs.append(noul(["is_" + ident(w, 0), "purpose_check"], ["Is it a%s %s?" % ("n" if w[0] in "aei" else "", w) if x != "thanks" else "Does the writer say thanks?", "The message is a%s %s." % ("n" if w[0] in "aei" else "", w)], x == k))
    qs.append(noul(["question", "is_question", "asks"], ["Does the [writer|user] ask [a question|something]?", "Is it a question?"], "?" in t if k != "request" else .5))
    d = any(x in t for x in DAYS)
    qs.append(noul(["has_day", "weekday", "date_mentioned"], ["Is a [weekday|day of the week] mentioned?", "Does the text name a day?"], d))
    c = next((x for x in CITY if x in t), None)
    if c: qs.append(val_q(ch(["city", "place"]), c, R.sample(CITY, ri(1, 4))))
    return wrap_text(t), qs


# ------------------------------------------------------------------------------------------ pictures
RGB = {"red": (220, 30, 30), "green": (30, 160, 50), "blue": (40, 70, 220), "yellow": (240, 220, 40), "orange": (245, 140, 20), "purple": (140, 40, 170), "black": (15, 15, 15), "white": (250, 250, 250), "gray": (128, 128, 128), "brown": (130, 80, 40), "pink": (250, 150, 190), "cyan": (60, 210, 220)}
SHAPES = ["circle", "square", "triangle", "star", "cross", "rectangle", "diamond"]


def jit(c): return tuple(max(0, min(255, v + ri(-14, 14))) for v in c)


class Ink:
    """draws on a picture and at the same places, with the number of the object, on a map: what each 32 x 32 cell shows is a training target of the vision tower"""
    def __init__(self, im):
        from PIL import Image, ImageDraw
        self.d = ImageDraw.Draw(im); self.map = Image.new("L", im.size, 0); self.m = ImageDraw.Draw(self.map); self.m.fontmode = "1"; self.what = []; self.count = -1

    def mark(self, colour=None, form=None):
        """what follows is one object; nothing given: decoration"""
        self.what.append((colour, form)); return self

    def __getattr__(self, n):
        f = getattr(self.d, n)
        if n == "textbbox": return f

        def both(*a, **k):
            f(*a, **k); i = len(self.what)
            if not self.what or self.what[-1] == (None, None): i = 0
            getattr(self.m, n)(*a, **{x: (i if x in ("fill", "outline", "stroke_fill") else y) for x, y in k.items()})
        return both

    def targets(self):
        """(cells: list of (colour or None, form or None) a 32 x 32 cell, row by row; number of objects or -1)"""
        a = np.asarray(self.map.resize((self.map.width // 16 * 16, self.map.height // 16 * 16))) if self.map.width % 32 or self.map.height % 32 else np.asarray(self.map)
        h, w = a.shape[0] // 32, a.shape[1] // 32; o = []
        for x in a[: h * 32, : w * 32].reshape(h, 32, w, 32).transpose(0, 2, 1, 3).reshape(h * w, -1):
            n = np.bincount(x, minlength=len(self.what) + 1); n[0] = 0; i = int(n.argmax())
            o.append(self.what[i - 1] if n[i] >= 48 else (None, None))
        return o, self.count


def shape(dr, k, x, y, r, c):
    import math
    if k == "circle": dr.ellipse([x - r, y - r, x + r, y + r], fill=c)
    elif k == "square": dr.rectangle([x - r * .85, y - r * .85, x + r * .85, y + r * .85], fill=c)
    elif k == "rectangle":
        w, h = (r, r * .5) if pr(.6) else (r * .5, r)
        dr.rectangle([x - w, y - h, x + w, y + h], fill=c)
    elif k == "triangle": dr.polygon([(x, y - r), (x - r * .9, y + r * .8), (x + r * .9, y + r * .8)], fill=c)
    elif k == "diamond": dr.polygon([(x, y - r), (x + r * .75, y), (x, y + r), (x - r * .75, y)], fill=c)
    elif k == "cross":
        w = r * .3
        dr.rectangle([x - r, y - w, x + r, y + w], fill=c); dr.rectangle([x - w, y - r, x + w, y + r], fill=c)
    else:
        a = R.random() * 6.28 if pr(.3) else -1.5708
        dr.polygon([(x + (r if i % 2 == 0 else r * .42) * math.cos(a + i * math.pi / 5), y + (r if i % 2 == 0 else r * .42) * math.sin(a + i * math.pi / 5)) for i in range(10)], fill=c)


def d_image():
    from PIL import Image, ImageDraw, ImageFont
    W, H = (ch([128, 128, 160, 192]), ch([128, 128, 160, 192])) if LARGE else (ch([128, 128, 128, 160]), ch([128, 128, 128, 160]))
    if W * H > 65536: W = H = 128
    kind = ch(["one", "one", "count", "count", "many", "digit", "bar", "bar"]) if LARGE else ch(["one"] * 5 + ["count"] * 2 + ["digit", "bar"])
    bg = ch(["white", "white", "white", "gray", "black", "yellow", "cyan", "pink"])
    im = Image.new("RGB", (W, H), jit(RGB[bg])); dr = Ink(im); qs = []
    cols = [c for c in RGB if c != bg and not (bg == "white" and c in ()) and not (bg == "gray" and c in ("cyan",))]
    cq = lambda c, ins, ids=("color", "colour", "paint"): choice(list(ids), ins, [(x, None) for x in dict.fromkeys([c] + R.sample(cols, ri(1, 6)))], 0)
    state = ch(["What does the picture show?", "", "Look at the image.", "A picture.", {"image": 1}, "drawing", "Image attached.", "See the picture."])
    def place(n, r):
        pts = []
        for _ in range(400):
            x, y = ri(r + 2, W - r - 2), ri(r + 2, H - r - 2)
            if all(abs(x - a) > 2.1 * r or abs(y - b) > 2.1 * r for a, b in pts): pts.append((x, y))
            if len(pts) == n: break
        return pts
    if kind in ("one", "count"):
        s, c = ch(SHAPES), ch(cols)
        n = 1 if kind == "one" else ri(1, 6)
        r = ri(18, min(W, H) // 2 - 8) if n == 1 and kind == "one" else ri(11, 17)
        pts = place(n, r); n = len(pts)
        dr.count = n
        for x, y in pts: shape(dr.mark(c, s), s, x, y, r, jit(RGB[c]))
        so = list(dict.fromkeys([s] + R.sample(SHAPES, ri(1, 6))))
        qs += [cq(c, ["[What|Which] colo[u|]r is the [shape|object|figure]?", "Colour of the [object|shape]", "What color is it?", "Which color do you see?"]),
               choice(["shape", "form", "figure", "kind"], ["[What|Which] shape is [shown|it]?", "What is [in the picture|drawn]?", "Shape of the object", "What does the picture show?"], [(x, None) for x in so], 0)]
        x = c if pr(.5) else ch(cols); y = s if pr(.5) else ch(SHAPES)
        qs.append(noul(["is_" + x, x, "colour_check"], ["Is the [object|shape] %s?" % x, "The %s is %s." % (ch(["shape", "object", s]), x), "Is [it|there anything] %s?" % x], x == c or (False)))
        qs.append(noul(["is_" + y, y, "shape_check"], ["Is [it|there] a %s?" % y, "The picture shows a %s." % y, "Does the image [contain|show] a %s?" % y], y == s))
        if kind == "count":
            o = sorted({n, max(1, n + ch([-1, 1])), ri(1, 6), ri(1, 6)})
            qs.append(choice(["count", "how_many", "number"], ["How many [shapes|objects|figures] are [there|shown]?", "Count the [shapes|objects].", "Number of %ss" % s], [(str(i), None) for i in o], o.index(n), style=.55) if len(o) > 1 else qs[0])
            qs.append(score(["count", "amount"], ["How many [shapes|objects] are there?"], [["one"], ["two"], ["three"], ["four"], ["five"], ["six"]], onehot(n - 1, 6)))
            lim = ri(1, 5); qs.append(noul(["more_than_%d" % lim], ["Are there more than %d [shapes|objects]?" % lim], n > lim))
        if pr(.3): qs.append(choice(["background", "backdrop"], ["What colo[u|]r is the background?", "Background colour"], [(z, None) for z in dict.fromkeys([bg] + R.sample([k for k in RGB if k != bg], ri(1, 5)))], 0))
        if kind == "one" and r < min(W, H) // 5:
            px, py = pts[0]
            if abs(px - W / 2) > W / 8:
                lr = px > W / 2
                qs.append(choice(["position", "side"], ["[Where|On which side] is the [shape|object]?"], [("left", None), ("right", None)], int(lr)))
    elif kind == "many":
        n = ri(2, 4); r = ri(12, 18); pts = place(n, r); n = len(pts)
        ss = [(ch(SHAPES), ch(cols)) for _ in range(n)]
        dr.count = n
        for (x, y), (s, c) in zip(pts, ss): shape(dr.mark(c, s), s, x, y, r, jit(RGB[c]))
        s, c = ch(ss)
        if sum(a == s for a, _ in ss) == 1: qs.append(cq(c, ["[What|Which] colour is the %s?" % s, "Colour of the %s" % s]))
        if sum(b == c for _, b in ss) == 1:
            so = list(dict.fromkeys([s] + R.sample(SHAPES, ri(1, 5)))); qs.append(choice(["shape", "which_shape"], ["Which shape is %s?" % c, "What is the %s object?" % c], [(x, None) for x in so], 0))
        x = c if pr(.5) else ch(cols); qs.append(noul(["has_" + x], ["Is there a %s [object|shape]?" % x, "Something in the picture is %s." % x], any(b == x for _, b in ss)))
        y = s if pr(.5) else ch(SHAPES); qs.append(noul(["has_" + y], ["Is there a %s?" % y, "The picture contains a %s." % y], any(a == y for a, _ in ss)))
        o = [str(i) for i in range(1, 6)]; qs.append(choice(["count", "how_many"], ["How many [shapes|objects] are there?"], [(i, None) for i in o], n - 1, style=.55))
    elif kind == "digit":
        v = ri(0, 9); c = ch(cols)
        try: ft = ImageFont.load_default(size=ri(50, min(W, H) - 30))
        except TypeError: ft = ImageFont.load_default()
        b = dr.textbbox((0, 0), str(v), font=ft)
        x0 = ri(2, max(2, W - (b[2] - b[0]) - 4)); y0 = ri(2, max(2, H - (b[3] - b[1]) - 4))
        dr.mark(c, str(v)).text((x0 - b[0], y0 - b[1]), str(v), fill=jit(RGB[c]), font=ft)
        o = sorted({v} | {ri(0, 9) for _ in range(ri(1, 6))})
        if len(o) < 2: o = sorted({v, (v + 1) % 10})
        qs += [choice(["digit", "number", "value"], ["Which [digit|number] is [shown|written]?", "Read the number.", "What number do you see?"], [(str(i), None) for i in o], o.index(v), style=.55), cq(c, ["What colour is the [digit|number]?"])]
        x = v if pr(.5) else ri(0, 9); qs.append(noul(["is_%d" % x], ["Is it [the digit|a|] %d?" % x, "The picture shows the number %d." % x], x == v))
    else:
        n = ri(2, 5); cs = R.sample(cols, n); hs = R.sample(range(2, 12), n); bw = (W - 16) // n; base = H - 12
        if bg in cs: return d_image()
        dr.count = n
        for i in range(n): dr.mark(cs[i]).rectangle([8 + i * bw + 3, base - hs[i] * (H - 24) / 12, 8 + (i + 1) * bw - 3, base], fill=jit(RGB[cs[i]]))
        dr.mark().line([4, base, W - 4, base], fill=(0, 0, 0) if bg != "black" else (255, 255, 255), width=2)
        up = pr(.6); b = cs[int(np.argmax(hs) if up else np.argmin(hs))]
        w = "highest|tallest|largest|longest" if up else "lowest|shortest|smallest"
        qs += [choice(["highest" if up else "lowest", "bar", "which_bar"], ["Which bar is [the|] [%s]?" % w, "What colour is the [%s] bar?" % w, "Which colour has the [%s] value?" % w], [(x, None) for x in cs], cs.index(b)),
               choice(["bars", "count"], ["How many bars are [there|shown]?", "Number of bars"], [(str(i), None) for i in range(2, 7)], n - 2, style=.55)]
        if pr(.6): qs.append(choice(["kind", "image_type"], ["What kind of picture is it?", "What does the image show?"], [("bar chart", ["bars of different height"]), ("shape", ["a geometric figure"]), ("digit", ["a number"])], 0))
        x = ch(cs) if pr(.5) else ch(cols); qs.append(noul(["has_" + x], ["Is there a %s bar?" % x], x in cs))
    f = W / 32, H / 32
    W2, H2 = max(32, round(f[0]) * 32), max(32, round(f[1]) * 32)
    if (W2, H2) != (W, H): im = im.resize((W2, H2), Image.BICUBIC)
    a = np.asarray(im)
    if pr(.3): a = np.clip(a.astype(np.int16) + np.random.default_rng(ri(0, 10 ** 9)).integers(-8, 9, a.shape), 0, 255).astype(np.uint8)
    return state, qs, ("img", a, dr.targets())


# ------------------------------------------------------------------------------------------ everything
MIX = [(d_support, 14), (d_review, 9), (d_vader, 10), (d_log, 5), (d_order, 6), (d_json, 6), (d_list, 1), (d_fact, 5), (d_num, 1), (d_family, 16), (d_mail, 8), (d_mod, 7), (d_lang, 4), (d_mention, 2), (d_wordnet, 2), (d_distill, 14), (d_debian, 1), (d_agent, 6), (d_chat, 4), (d_image, 7), (d_emotion, 7), (d_purpose, 5)] if not LARGE else [
       (d_support, 10), (d_review, 7), (d_vader, 6), (d_log, 6), (d_order, 7), (d_json, 9), (d_list, 5), (d_fact, 6), (d_num, 4), (d_family, 12), (d_mail, 5), (d_mod, 5), (d_lang, 3), (d_mention, 5), (d_wordnet, 6), (d_distill, 16), (d_debian, 3), (d_agent, 4), (d_chat, 3), (d_image, 9), (d_emotion, 5), (d_purpose, 4)]
FN = [f for f, _ in MIX]; WT = [w for _, w in MIX]
GEN_IDS = ["q", "q1", "q2", "q3", "answer", "a", "b", "x", "field", "decision", "result", "check", "flag", "value", "label"]


def make(domain=None):
    f = domain or R.choices(FN, WT)[0]
    r = f()
    state, qs = r[0], list(r[1])
    extra = r[2] if len(r) > 2 else None
    R.shuffle(qs)
    k = ri(3, 6) if extra and extra[0] == "img" else 1 if pr(.12) else ri(2, 5) if pr(.85) else ri(4, 8)
    Q, T, seen = {}, {}, set()
    aux = []
    for i, q, t in qs[:k]:
        if pr(.12) and q.get("instructions"): i = ch(GEN_IDS)
        base = i; n = 2
        while i in Q: i = base + "_%d" % n; n += 1
        sig = json.dumps(q, sort_keys=True, default=str)
        if sig in seen: continue
        seen.add(sig)
        if q["type"] == "choice" and len(q["criteria"]) < 2: continue
        if pr(.02) and q.get("instructions"): q["instructions"] = {"question": q["instructions"]}
        if isinstance(q.get("instructions"), str): q["instructions"] = re.sub(r" +", " ", q["instructions"]).replace(" ?", "?").replace(" .", ".").strip()
        if not q.get("instructions"): q.pop("instructions", None)
        Q[i] = q
        if q["type"] == "noul": T[i] = [t["true"], t["false"]]
        elif q["type"] == "choice": T[i] = [t[x] for x in sorted(q["criteria"])]
        else: T[i] = [t[str(j)] for j in range(len(q["criteria"]))]
        s = sum(T[i])
        T[i] = [x / s for x in T[i]]
        if extra and extra[0] == "d" and extra[2] and q["type"] == "choice":
            aux.append((i, [extra[2][x] for x in sorted(q["criteria"])]))
    if not Q: return make(domain)
    out = {"state": state, "questions": Q, "targets": T, "domain": f.__name__[2:], "image": None, "aux": aux, "text_index": -1}
    if extra and extra[0] == "d": out["text_index"] = extra[1]
    if extra and extra[0] == "img": out["image"] = extra[1]; out["cells"] = extra[2] if len(extra) > 2 else None
    return out
