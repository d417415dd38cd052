"""Writes calibrate.jsonl and select.jsonl: typed questions about made-up texts and small JSON records, for `dikast quantize
--calibrate` and `--select`. Plain Python; the same files every time. No text is one of models/clef-mini/eval.jsonl, which
is the report set (the program refuses sets that share one).
"""

import json
import random

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


def fill(text, r):
    return text.format(
        n=r.randint(2, 9), m=r.randint(3, 40), day=r.choice(["Monday", "Tuesday", "Thursday", "Sunday"]),
        month=r.choice(["March", "June", "October"]), city=r.choice(["Lyon", "Graz", "Leeds", "Turin", "Bergen"]),
    )


def records(r, texts, objects):
    states = [fill(t, r) for t in texts] + [RECORDS[i % len(RECORDS)](r) for i in range(objects)]
    # Some long ones: several texts in one state.
    states += [" ".join(fill(t, r) for t in r.sample(texts, 4)) for _ in range(objects)]
    for i, state in enumerate(states):
        bank = ABOUT_RECORDS if isinstance(state, dict) else QUESTIONS
        questions = dict(r.sample(bank, min(len(bank), r.randint(2, 4))))
        yield {"id": f"{i:03}", "set": "json" if isinstance(state, dict) else "text", "state": state, "questions": questions}


random_source = random.Random(11)
shuffled = TEXTS[:]
random_source.shuffle(shuffled)
select, calibrate = shuffled[:10], shuffled[10:]
for name, texts, objects in [("calibrate", calibrate + calibrate, 16), ("select", select, 6)]:
    with open(f"{name}.jsonl", "w") as out:
        seen = set()
        for record in records(random_source, texts, objects):
            key = json.dumps(record["state"])
            if key not in seen:
                seen.add(key)
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
