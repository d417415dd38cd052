"""Writes calibrate.jsonl, select.jsonl and report.jsonl with folders of pictures: typed questions about made-up texts, small
JSON records and drawn pictures, for `dikast quantize --calibrate`, `--select` and `--report`. Plain Python; the same files
every time. No text is in two of them, none is one of models/clef-mini/eval.jsonl, which is a report set too (the program
refuses sets that share one), and the questions of report.jsonl have other words.
"""

import json
import os
import random
import struct
import zlib

TEXTS = [
    # support
    "The app closes by itself whenever I open the invoice list on my tablet.",
    "You sent the size {n} boots but I had ordered {m}. I would like to exchange them.",
    "Thanks to your technician the heating has worked again since {day}. Very friendly man.",
    "My subscription was renewed for another year although I cancelled it on {day}.",
    "Can I pay by bank transfer, and how long does delivery to {city} take?",
    "After the update the printer only prints blank pages and blinks {n} times.",
    "The courier left the parcel in the rain and now the books inside are wet.",
    "I forgot my password and the reset mail never arrives, not even in the spam folder.",
    "Please delete my account and all of my data, I do not use your service any more.",
    "Our whole office in {city} has been offline since {n} o'clock and the phones are dead too.",
    "The blender broke after {n} days and the shop told me to write to you about the warranty.",
    "Is there a discount if our school orders {m}0 licences at once?",
    # reviews
    "The soup was cold, the waiter rude and the bill wrong by {n} euros.",
    "Best concert of the year: {n} encores and the whole hall sang along.",
    "The novel starts slowly but the last hundred pages kept me awake until {n} in the morning.",
    "For this price the jacket is fine, though the zip gets stuck and the blue is paler than shown.",
    "Quiet room, soft beds and a breakfast with fresh figs; we will come back in {month}.",
    "The game looks wonderful, yet it stutters every few minutes and lost my progress twice.",
    "My daughter plays with the wooden train every day and nothing has broken in {n} months.",
    "The museum is smaller than expected, but the guide knew a story about every painting.",
    # news
    "Parliament in {city} passed the new housing law with {m}2 votes against {n}8 after a night of debate.",
    "The striker scored {n} times in the second half and the champions stay on top of the table.",
    "Heavy snow closed the pass near {city} and left {m} villages without power on {day}.",
    "Researchers found that the bees of the valley sleep longer after cool nights.",
    "The carmaker will build {m}00,000 batteries a year in {city} from {month} on.",
    "A telescope in the desert has photographed the rings of a planet {n}0 light years away.",
    "Ticket sales for the summer festival began on {day} and were over within {n} minutes.",
    "The court in {city} ordered the bank to pay back fees to {m}00 customers.",
    "Wheat prices fell for the third week as the harvest in the south came in early.",
    "The orchestra announced that its conductor will leave at the end of {month}.",
    # instructions and talk
    "Whisk the eggs with sugar, fold in the flour and bake the cake for {n}0 minutes.",
    "Water the tomatoes in the evening and cut the side shoots every {day}.",
    "Hi Tom, the meeting moves from {day} to Friday at {n}, please bring the plans for the bridge.",
    "Mum asked whether you take the train at {n} or the bus; call her before dinner.",
    "Press the red button for {n} seconds until the light turns green, then let go.",
    "Dear team, the lift is out of order until {month}; please use the stairs on the north side.",
    # other languages
    "Der Akku meines Telefons hält seit dem {day} nur noch {n} Stunden.",
    "Die Wanderung durch das Tal war herrlich, nur die Hütte war leider geschlossen.",
    "Le train pour {city} est parti avec {n} minutes de retard et il n'y avait plus de place.",
    "Merci pour le bouquet, les fleurs sont magnifiques et sont arrivées à l'heure.",
    "El paquete llegó abierto y falta una de las {n} tazas que pedí.",
    "La obra de teatro fue divertida y los actores, excelentes.",
    "Il corso di cucina comincia a {month} e costa {m}0 euro.",
    "De fiets die ik vorige week kocht heeft al twee lekke banden gehad.",
    # machines
    "disk /dev/sd{n} is at 9{n} percent, {m} snapshots older than 30 days",
    "WARN worker-{n} retried job {m}17 three times, last error: connection reset",
    "GET /api/orders took {m}400 ms at 0{n}:12, threshold 800 ms",
    "backup of {city} finished, {m} files copied, 0 errors",
]
QUESTIONS = [
    ("complaint", {"type": "noul", "instructions": "Is the writer unhappy about something?"}),
    ("asks", {"type": "noul", "instructions": "Does the text ask for an action from the reader?"}),
    ("numbers", {"type": "noul", "instructions": "Is a number mentioned?"}),
    ("praise", {"type": "noul", "instructions": "Does somebody praise something?", "criteria": {"true": "Something or somebody is praised"}}),
    ("urgent", {"type": "noul", "instructions": "Does this need an answer today?"}),
    ("topic", {"type": "choice", "instructions": "What is the text about?", "criteria": {"customer service": None, "food": None, "sports": None, "politics": None, "technology": None, "nature": None}}),
    ("kind", {"type": "choice", "instructions": "What kind of text is it?", "criteria": {"review": "an opinion about something bought or seen", "news": "a report of an event", "message": "somebody writes to somebody", "log": "a line that a machine wrote"}}),
    ("team", {"type": "choice", "instructions": "Who should read it?", "criteria": {"finance": "Money, invoices and refunds", "support": "Faults and questions", "nobody": "There is nothing to do"}}),
    ("language", {"type": "choice", "instructions": "In which language is it written?", "criteria": {"English": None, "German": None, "French": None, "Spanish": None, "Italian": None, "Dutch": None}}),
    ("mood", {"type": "choice", "instructions": "How does the writer feel?", "criteria": {"angry": None, "happy": None, "neutral": None}}),
    ("anger", {"type": "score", "instructions": "How angry is the writer?", "criteria": ["not at all", "a little", "very"]}),
    ("urgency", {"type": "score", "instructions": "How soon must somebody act?", "criteria": ["never", "this month", "this week", "at once"]}),
    ("detail", {"type": "score", "instructions": "How detailed is it?", "criteria": ["a few words", "one fact", "several facts"]}),
]
RECORDS = [
    lambda r: {"order": r.randint(100, 999), "items": r.sample(["lamp", "desk", "chair", "shelf", "rug"], 3), "paid": r.random() < 0.5, "total": r.randint(20, 400)},
    lambda r: {"user": r.choice(["mara", "jon", "eli", "ada"]), "plan": r.choice(["free", "team", "plus"]), "seats": r.randint(1, 40), "active": r.random() < 0.5},
    lambda r: {"sensor": f"t{r.randint(1, 9)}", "celsius": r.randint(-10, 90), "alarm": r.random() < 0.3, "room": r.choice(["cellar", "roof", "hall"])},
    lambda r: {"flight": f"X{r.randint(100, 999)}", "from": r.choice(["Oslo", "Porto"]), "delay": r.randint(0, 180), "gate": r.choice(["A1", "B7", "C3"])},
]
ABOUT_RECORDS = [
    ("flag", {"type": "noul", "instructions": "Is one of the values true?"}),
    ("many", {"type": "noul", "instructions": "Is there a number above 50?"}),
    ("thing", {"type": "choice", "instructions": "What does the record describe?", "criteria": {"an order": None, "a user": None, "a sensor": None, "a flight": None}}),
    ("size", {"type": "score", "instructions": "How large is the largest number?", "criteria": ["below 10", "10 to 99", "100 or more"]}),
]


# Only for report.jsonl.
REPORT_TEXTS = [
    "The tickets for row 1{n} never came by post, and the opera is on {day}. Please help.",
    "Our newborn kept us awake, yet the night nurse in {city} could not have been kinder.",
    "Paid twice for the same ferry. I want {m} euros back before {month}.",
    "The sail ripped on the second outing; for a boat this dear I expected more.",
    "How do I change the language of my navigation device?",
    "The mayor opened a bridge for cyclists in {city} after {n} years of building.",
    "Goalkeeper out for {n} weeks: the league leaders look for a substitute before {day}.",
    "Peel the potatoes, slice them thinly and fry them in butter until golden.",
    "ERROR payment-gateway refused card ending in {m}4, trace 9f{n}",
    "node {city}-{n} joined the cluster, {m} of {m} replicas in sync",
    "Kannst du am {day} die Kinder abholen? Ich sitze bis {n} Uhr im Labor fest.",
    "Le guide parlait trop vite mais la grotte vaut vraiment le détour.",
    "No funciona el ascensor desde el lunes y mi madre vive en el quinto piso.",
    "Astronomers counted {m} new moons around the ringed giant.",
    "Love the colour, love the fit, and it arrived {n} days early!",
    "Nobody answers your hotline. {n} calls, {m} minutes of music each. I give up.",
    "Interest on savings rises to {n} percent at three banks in {city}.",
    "Our choir seeks tenors; rehearsals every {day} at the old fire station.",
    "I lost my badge in the car park, can reception print a new one by {n}?",
    "The sequel is louder, longer and emptier than the film that it follows.",
]
REPORT_QUESTIONS = [
    ("unhappy", {"type": "noul", "instructions": "Does the author express dissatisfaction?"}),
    ("request", {"type": "noul", "instructions": "Does the author want somebody to do something?"}),
    ("invented", {"type": "noul", "instructions": "Is this about cooking?", "criteria": {"true": "It explains how to prepare food"}}),
    ("field", {"type": "choice", "instructions": "Pick the best category.", "criteria": {"help request": None, "entertainment": None, "sport": None, "economy": None, "recipe": None, "family": None}}),
    ("origin", {"type": "choice", "instructions": "Where would you read this?", "criteria": {"newspaper": "written by a journalist", "inbox": "a private or business mail", "console": "printed by a program", "shop": "the opinion of a buyer"}}),
    ("tongue", {"type": "choice", "instructions": "Name the language.", "criteria": {"English": None, "German": None, "French": None, "Spanish": None}}),
    ("tone", {"type": "score", "instructions": "Rate the tone.", "criteria": ["hostile", "cool", "neutral", "warm", "enthusiastic"]}),
    ("haste", {"type": "score", "instructions": "How quickly should one react?", "criteria": ["no reaction needed", "in some days", "right away"]}),
]
REPORT_ABOUT_RECORDS = [
    ("high", {"type": "noul", "instructions": "Does any field exceed 100?"}),
    ("entity", {"type": "choice", "instructions": "Which kind of entry is this?", "criteria": {"purchase": None, "account": None, "measurement": None, "departure": None}}),
]
COLOURS = {"red": (215, 40, 40), "blue": (40, 80, 210), "green": (40, 150, 60), "yellow": (235, 200, 30), "black": (20, 20, 20), "orange": (240, 140, 30), "purple": (130, 50, 160)}
SHAPES = {
    "circle": lambda x, y: x * x + y * y <= 1,
    "square": lambda x, y: abs(x) <= 0.85 and abs(y) <= 0.85,
    "triangle": lambda x, y: -0.9 <= y <= 0.9 and abs(x) <= (y + 0.9) / 1.9,
    "diamond": lambda x, y: abs(x) + abs(y) <= 1,
    "bar": lambda x, y: abs(x) <= 0.35 and abs(y) <= 1,
    "cross": lambda x, y: min(abs(x), abs(y)) <= 0.3 and max(abs(x), abs(y)) <= 1,
}


def png(path, width, height, pixel):
    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in pixel(x, y)) for y in range(height))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def picture(r, path):
    """Draws one to four shapes of one kind and colour; kind, colour, how many."""
    width, height = r.choice([(128, 128), (160, 128), (192, 160), (160, 160)])
    kind, colour, count = r.choice(list(SHAPES)), r.choice(list(COLOURS)), r.randint(1, 4)
    ground = r.choice([(255, 255, 255), (240, 240, 235), (225, 235, 245)])
    size = r.choice([14, 20, 26]) if count > 1 else r.choice([24, 40, 52])
    places = [((2 * i + 1) * width / (2 * count), height / 2 + (r.randint(-20, 20) if count > 1 else 0)) for i in range(count)]
    size = min(size, width / (2 * count) - 2)
    inside = lambda x, y: any(SHAPES[kind]((x - a) / size, (y - b) / size) for a, b in places)
    png(path, width, height, lambda x, y: COLOURS[colour] if inside(x + 0.5, y + 0.5) else ground)
    return kind, colour, count


def about_picture(r, report):
    colours = dict.fromkeys(r.sample(list(COLOURS), 4))
    shapes = dict.fromkeys(r.sample(list(SHAPES), 3))
    if report:
        bank = [
            ("paint", {"type": "choice", "instructions": "Name the colour that was used.", "criteria": colours}),
            ("figure", {"type": "choice", "instructions": "What was drawn?", "criteria": shapes}),
            ("several", {"type": "noul", "instructions": "Is more than one thing drawn?"}),
        ]
    else:
        bank = [
            ("colour", {"type": "choice", "instructions": "Which colour is it?", "criteria": colours}),
            ("shape", {"type": "choice", "instructions": "Which form do you see?", "criteria": shapes}),
            ("number", {"type": "score", "instructions": "How many are there?", "criteria": ["one", "two", "three", "four"]}),
            ("round", {"type": "noul", "instructions": "Is something round in the picture?"}),
        ]
    return dict(r.sample(bank, 2))


def fill(text, r):
    return text.format(
        n=r.randint(2, 9), m=r.randint(3, 40), day=r.choice(["Monday", "Tuesday", "Thursday", "Sunday"]),
        month=r.choice(["March", "June", "October"]), city=r.choice(["Lyon", "Graz", "Leeds", "Turin", "Bergen"]),
    )


def records(r, texts, objects, pictures, name):
    report = name == "report"
    states = [fill(t, r) for t in texts] + [RECORDS[i % len(RECORDS)](r) for i in range(objects)]
    # Some long ones: several texts in one state.
    states += [" ".join(fill(t, r) for t in r.sample(texts, 4)) for _ in range(objects)]
    for i, state in enumerate(states):
        questions, about = (REPORT_QUESTIONS, REPORT_ABOUT_RECORDS) if report else (QUESTIONS, ABOUT_RECORDS)
        bank = about if isinstance(state, dict) else questions
        questions = dict(r.sample(bank, min(len(bank), r.randint(2, 4))))
        yield {"id": f"{i:03}", "set": "json" if isinstance(state, dict) else "text", "state": state, "questions": questions}
    os.makedirs(f"{name}_images", exist_ok=True)
    for i in range(pictures):
        picture(r, f"{name}_images/{i:02}.png")
        state = r.choice(["A drawing.", "", "See the picture.", "Photo from the form"])
        yield {"id": f"picture-{i:02}", "set": "picture", "state": state, "questions": about_picture(r, report), "image_files": [f"{i:02}.png"]}


random_source = random.Random(11)
shuffled = TEXTS[:]
random_source.shuffle(shuffled)
select, calibrate = shuffled[:10], shuffled[10:]
sets = [("calibrate", calibrate + calibrate, 16, 24), ("select", select, 6, 8), ("report", REPORT_TEXTS + REPORT_TEXTS, 6, 10)]
for name, texts, objects, pictures in sets:
    with open(f"{name}.jsonl", "w") as out:
        seen = set()
        for record in records(random_source, texts, objects, pictures, name):
            key = json.dumps([record["state"], record.get("image_files")])
            if key not in seen:
                seen.add(key)
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
