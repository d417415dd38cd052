"""A bank of facts for yes/no and choice questions: groups of mutually exclusive variants. Own work of this project.

One variant a line: predicate phrasings (base verb phrases) => sentences that state it. Phrasings and sentences are separated by " / ", [a|b] are alternatives.
A group name ends with "!" when the absence of every variant in a text means that each of its predicates is false.
"""
SUBJ = {"customer": "customer writer user sender client person".split(), "guest": "guest visitor reviewer author writer customer".split(), "writer": "writer author speaker person sender".split(),
        "employee": "employee sender writer colleague author".split(), "buyer": "buyer reviewer author customer writer".split(), "patient": "patient person writer".split(), "applicant": "applicant candidate writer sender".split(), "tenant": "tenant writer sender person".split(),
        "student": "student writer sender person".split(), "driver": "driver writer person".split()}
BANK = {
"customer": """
# money!
want a refund / request a refund / want their money back / ask for reimbursement / ask to be paid back / demand the money back => [Please|Kindly] [refund|reimburse|pay back] [the full amount|what I paid|the difference|the fee]. / I [would like|expect|want] [a full refund|to be refunded|my payment returned]. / [Transfer|Send] the [money|sum] back to my [bank account|card]. / I want the {price} [returned|credited back]. / Can you reverse the [payment|charge]? / The [fee|amount] must be paid back to me.
want a replacement / ask for a new item / want the item exchanged / request an exchange => [Please|Could you] send me a [new|working|replacement] one. / I would [like|prefer] to swap it for [another colour|a bigger one|a different model]. / A replacement would be enough for me. / Can I exchange it for the [larger|smaller] version? / Just ship me another {prod}.
want a discount / ask for a lower price / want to pay less => Could you [lower|reduce] the price [a little|by {pct}]? / Is there [any discount|a special price|a cheaper rate] for [loyal customers|pensioners|large orders]? / I would buy it if it were {pct} cheaper. / Do you grant a rebate for {n} pieces?
want an invoice / ask for a receipt / need a bill for the purchase => I still need [a receipt|an invoice|a proper bill] for my tax office. / Please send the invoice [to my company|as a PDF]. / Where can I download the receipt? / Our bookkeeping asks for the bill of order {ord}.
# contract!
want to cancel / want to end the contract / want to stop the subscription / ask for cancellation => I [hereby|herewith] [cancel|terminate] my [contract|membership|subscription]. / [Stop|End] my plan [at the end of {month}|right away]. / I do not want to renew my [subscription|membership]. / How do I get out of this contract? / Close my account, I am leaving.
want to upgrade / want a bigger plan / ask for a higher tier => We have grown and need the [larger|next bigger|business] plan. / Please [switch|move] us to the premium tier. / I would like to add {n} more seats to our plan. / Can I upgrade from basic to pro?
want to downgrade / want a smaller plan => We use far too little, please put us on the [small|basic|cheapest] plan. / Move me down to the basic tier. / I would like to reduce our plan to {n} seats.
# delivery!
say that the parcel is late / complain about a late delivery / wait for a delayed parcel => The [parcel|package|box|shipment] should have been here on {day}. / I have been waiting for my order for [weeks|{n} days]. / Still no sign of my [package|delivery]. / Your tracking page has said "in transit" for {n} days. / The courier is [days|a week] late.
report a damaged item / say that something arrived broken / complain about damage => The {prod} arrived [cracked|in pieces|badly scratched|dented]. / When I opened the box, the [glass|lid|handle] was broken. / The packaging was torn and the {prod} is damaged. / Something inside rattles, it must have been dropped on the way.
report a missing item / say that something was not in the box / miss part of the order => The [charger|cable|manual|second piece] was not in the box. / I ordered [two|three] and got only one. / Half of my order is missing. / There was no [power supply|remote control] in the package.
say that the wrong item came / report a wrong product / have received something else => You sent me a [red|green|small] one, I had ordered [a black|a white|a large] one. / Instead of the {prod} I got a [lamp|book|box of pencils]. / This is not what I ordered. / The label is mine, but the goods belong to somebody else.
want to change the address / ask for delivery to another place => Please deliver it to my [office|neighbour|new address] instead. / I have moved, my new street is {n} Mill Road, {city}. / Can the courier bring it to {city} rather than {city}?
# contact!
want a call back / ask for a phone call / want to be called => [Please|Kindly] [call|ring|phone] me [back|today|at {phone}]. / Can somebody give me a ring? / I would rather talk on the phone, my number is {phone}. / Call me after {time}.
want to speak to a manager / ask for a supervisor / want the complaint passed on to a boss => I want to [speak|talk] to your [manager|supervisor|boss]. / Put me through to somebody in charge. / Let me have the name of your director. / Escalate this to the management.
# access!
be unable to log in / have lost access to the account / have a login problem => I [can't|cannot] [sign in|get into my account|log in]. / The password I always use is [refused|not accepted]. / I am locked out [of my profile|again]. / The reset mail never [comes|shows up]. / It keeps saying "unknown user".
report a bug / describe a software error / report a malfunction => The [program|app|page] [crashes|hangs|freezes] when I [print|save|scroll]. / After the update the [button|menu|map] is gone. / I get a blank screen [every time|when I start it]. / It shows "error {big}" and closes. / The totals in the report are plainly wrong.
# threat!
threaten legal action / mention a lawyer / threaten to sue => My [lawyer|attorney|solicitor] [has been informed|will be in touch]. / See you in court. / I am going to sue. / I will hand this over to my legal insurance.
threaten to leave a bad review / want to post about it in public => I will [tell everyone online|write about this on every review site]. / My followers will hear about this. / Expect one star from me everywhere.
threaten to go to a competitor / be thinking about switching => [Your competitors|Others] treat people better, I may [switch|go there]. / One more time and I will buy elsewhere. / I am already looking at other providers.
# mood
be angry / be furious / sound upset => This is [a scandal|an outrage|unbelievable]! / I have had it with you people! / How can anybody be so incompetent?! / I am [fuming|beside myself|livid]. / What a rotten company!
be satisfied / be happy with the service / sound pleased => [Everything|All] went [smoothly|perfectly], well done. / I am [very pleased|delighted|really happy] with [you|how this went]. / Great service as always. / You made my day. / Keep it up, wonderful team!
be disappointed / sound let down => I [had hoped for|expected] more from you. / That is a pity, I used to trust your shop. / Sadly this was a letdown. / I am not happy with how this was handled.
be polite / thank the team / say thanks => Thank you [so much|very much|kindly] for your [time|help|effort]. / Many thanks in advance. / I [am grateful|appreciate it]. / Thanks a lot and warm regards.
# pace
be in a hurry / need a fast answer / have an urgent request => I need this [by tonight|within the hour|before noon|today]. / Every [minute|hour] counts. / Please act [at once|immediately], we are stuck. / This cannot wait until tomorrow. / It is [really|extremely] urgent.
be in no hurry / have plenty of time / say that it can wait => [Take all the time you need|No need to rush|It is not pressing]. / Next month is fine too. / Answer whenever it suits you. / I do not need it before {month}.
""",
"guest": """
# staff
praise the staff / find the staff friendly / like the personnel => The [waiters|people at the desk|crew|team] were [so kind|charming|very attentive]. / Our [host|guide|waitress] could not have been nicer. / Everyone greeted us with a smile. / They went out of their way to help.
complain about the staff / find the staff rude / criticise the personnel => The [waiter|clerk|manager|owner] [shouted at us|rolled his eyes|ignored us]. / Nobody bothered to help with the luggage. / We were treated like a nuisance. / What an arrogant crew.
# food
praise the food / like the meal / enjoy the taste => The [soup|fish|risotto|bread|curry] was [heavenly|superb|full of flavour]. / I could eat there every day. / Breakfast was a feast. / Best dumplings in town.
complain about the food / dislike the meal / criticise the cooking => The [fish|rice|steak|salad] was [dry|burnt|cold|bland]. / I left half of it on the plate. / The sauce tasted of nothing. / We both felt sick after dinner.
# price
find it expensive / complain about the price / think it costs too much => {price} for that is [a joke|daylight robbery|way over the top]. / They charge extra for everything. / My wallet still hurts. / You get the same elsewhere for half the money.
find it cheap / praise the price / think it is good value => For {price} you cannot [complain|go wrong]. / [Unbeatable|Very fair] prices. / We paid next to nothing. / A lot of value for little money.
# noise
complain about noise / mention loud noise / have been kept awake => [Trucks|A building site|Barking dogs] kept us awake. / The walls are paper thin, we heard every word next door. / Loud music until {time}. / Bring earplugs.
praise the quiet / find the place quiet / have slept well => So [quiet|peaceful] that we slept like babies. / Not a sound at night. / A calm place far from the road.
# clean
complain about dirt / find the place dirty / criticise the cleanliness => There were [crumbs|stains|cobwebs|hairs] everywhere. / The bathroom had not been cleaned for days. / Sticky tables and greasy glasses. / Mould in the corners.
find the place clean / praise the cleanliness => Everything was spotless. / You could have eaten off the floor. / Fresh towels daily and gleaming tiles.
# wait
have waited long / complain about waiting / mention a long wait => We [stood|queued|waited] for [an hour|{n} minutes] [at the entrance|for a table|to pay]. / It took for ever until somebody came. / The line went around the block.
have been served quickly / praise the speed => We were seated [at once|in no time]. / The order came after five minutes. / Quick as lightning.
# again
want to come back / recommend the place / advise others to go => We will [definitely|certainly] be back. / [Go there|A must|Do not miss it]! / I have already booked again for {month}. / I tell all my friends about it.
not want to come back / advise against the place / warn other people => [Stay away|Avoid this place|Save your money]. / We will not set foot in there again. / Once and never more. / I cannot advise anyone to go.
# view!
mention the view / praise the view => From the [balcony|terrace|window] you see [the whole bay|the mountains|the old town]. / What a view! / The sunset over the lake was magical.
mention parking / talk about parking => [Parking|Finding a spot for the car] was [easy|a nightmare|free]. / The garage costs {price} a night. / There is room for the car behind the house.
mention children / talk about kids => The [kids|children|twins] loved the [pool|slide|playground]. / Great for families with small children. / Our daughter did not want to leave.
mention the wifi / talk about the internet connection => The wifi [dropped all the time|was fast]. / No internet on the second floor. / You have to pay for the wireless network.
""",
"buyer": """
# works
say that it is broken / report a defect / say that it stopped working => It [died|gave up|stopped] after [a week|two days|{n} uses]. / Now it does not even switch on. / The [motor|zip|hinge|screen] is already broken. / One side went dead.
say that it works well / praise the performance / find it reliable => It [works|runs] [flawlessly|like a charm|without a hitch]. / Not a single problem in {n} months. / Does exactly what it should. / Rock solid.
# look
like the design / praise the looks / find it beautiful => It [looks gorgeous|is a real eye-catcher]. / Such an elegant shape. / Everybody asks me where I got it. / The finish is beautiful.
dislike the design / find it ugly => Honestly, it is [ugly|hideous]. / The colour is nothing like the picture, an awful brown. / It looks cheap. / I hide it in the cupboard.
# size
find it too small / say that the size is wrong because it is small => Far too [small|tight|short] for me. / It barely fits a child. / I could not get it over my head.
find it too big / say that the size is wrong because it is large => Much too [large|wide|heavy]. / I could fit in it twice. / It does not go through the door.
find the size right / say that it fits => Fits [perfectly|like a glove]. / The size is just right. / As if made for me.
# use
find it easy to use / praise the simple handling => Out of the box and ready in [two|five] minutes. / Even my father can handle it. / No manual needed. / Simple and clear.
find it hard to use / complain about the handling / find it complicated => I gave up after an hour of [reading|fiddling]. / The menu is a maze. / You need an engineer to set it up. / The instructions are in tiny print and make no sense.
# buy
recommend the product / advise others to buy it / would buy it again => [Buy it|Get one]! / I would order it again at once. / Already bought a second one. / Highly recommended to anyone.
advise against the product / not recommend it / regret the purchase => [Don't buy this|Hands off|Keep your money]. / I regret every cent. / It goes straight back. / Choose anything but this.
# gift!
mention a gift / have bought it as a present => I gave it to my [wife|nephew|boss] for [her birthday|Christmas|the wedding]. / It was a present for {name}. / Wrapped it up for Mother's Day.
mention the warranty / talk about the guarantee => The warranty [ended a week ago|covers three years]. / They refused to honour the guarantee. / Luckily it is still under warranty.
mention the battery / talk about how long a charge lasts => One charge lasts [a weekend|{n} hours]. / The battery is flat by noon. / It needs charging twice a day.
mention the smell / talk about an odour => It smells of [glue|rubber|plastic]. / The odour filled the flat. / It has a lovely smell of cedar.
""",
"employee": """
# absence!
be ill / report sick / be unable to work for health reasons => I have [a fever|the flu|a bad cold] and stay in bed. / The doctor signed me off until {day}. / I will not come in, I feel awful. / My back is out, I can't work today.
be on holiday / take days off / announce a vacation => I am [away|on leave] [from {day}|until {month}]. / My vacation starts on {day}. / I would like to take {n} days off in {month}. / Out of office: I am travelling until {day}.
be late / announce a delay / arrive later than planned => My train is stuck, I will be there at {time}. / Running [ten|twenty] minutes late. / Start without me, I am held up in traffic. / I overslept, be there soon.
want to work from home / announce remote work => I will work from home on {day}. / Could I do the job from my home office next week? / Joining by video from home today.
# meeting!
want to move the meeting / ask for another date / reschedule an appointment => Can we [shift|push|move] our talk to {day}? / {day} does not suit me, what about {day}? / Let us do it an hour later. / I have to change our slot to {time}.
cancel a meeting / call off an appointment => The [review|workshop|lunch] on {day} is off. / I must cancel our meeting. / No call today, sorry. / We drop the session this week.
invite to a meeting / propose a date / want to meet => Shall we sit together on {day} at {time}? / Please join the kick-off in room {n}. / Let us meet to go through the numbers. / Do you have half an hour on {day}?
# ask!
ask for approval / need permission / want a sign-off => Do I have your okay for {price}? / Please approve the attached request. / May we go ahead with the supplier? / I need your signature on this.
ask for information / want to know something => Who is [responsible for|in charge of] the {serv}? / Where do I find the [template|figures|slides]? / What is the deadline for the report? / How do I get access to the archive?
offer help / want to support a colleague => Tell me if I can [take something off your plate|help]. / I have time on {day}, give me some of your tasks. / Happy to lend a hand.
apologise / say sorry => Sorry [for the mix-up|about that|I forgot the file]. / My apologies for the late reply. / That was my mistake, please excuse me.
# news!
report a success / share good news / announce a positive result => We [won the contract|hit our target|closed the deal]! / The launch went [great|without a glitch]. / Sales are up {pct}. / The customer loved the demo.
report a problem / share bad news / announce a setback => The [supplier|printer|server] let us down. / We are [behind schedule|over budget]. / The customer rejected our draft. / Two machines broke down this morning.
announce a new colleague / introduce a new employee => Please welcome {full}, who joins us on {day}. / {name} starts in our team next week. / Our new accountant is {full}.
announce a departure / leave the company / resign => {day} will be my last day. / I hand in my notice as of {month}. / After {n} years I am moving on. / {full} is leaving us.
""",
"writer": """
# topic
talk about the weather / describe the weather => [Rain|Fog|Snow] all day and a cold wind. / Not a cloud in the sky, {n} degrees. / The storm tore the roof off the barn. / It has been drizzling since {day}.
talk about sport / describe a game or training => Our [striker|goalkeeper|captain] [scored twice|broke a rib]. / I ran {n} kilometres before breakfast. / The final ended three to one. / She won the marathon in {city}.
talk about music / describe a concert or song => The [choir|orchestra|band] played [for two hours|our favourite tune]. / He practises the violin every evening. / Her new album is full of ballads. / I hum that melody all day.
talk about an animal / describe a pet or wild animal => The [puppy|kitten|parrot] chewed up my slippers. / A [fox|deer|hedgehog] came into the yard. / Our horse needs new shoes. / The vet vaccinated the rabbit.
talk about money / describe savings or spending => I put {price} aside every month. / The rent ate up my salary. / He inherited a fortune. / We finally paid off the loan.
talk about a journey / describe a trip => We took the night train to {city}. / Two weeks by bike along the coast. / The ferry to the island was full. / I missed my flight in {city}.
talk about school / describe lessons or studies => The maths teacher gave us {n} exercises. / She passed her [finals|entrance exam]. / My son starts first grade in autumn. / The lecture was cancelled.
talk about health / describe an illness or treatment => The dentist pulled two teeth. / My knee still hurts after the operation. / He has to take {n} pills a day. / The nurse changed the bandage.
talk about cooking / describe a dish or recipe => Chop the onions and fry them in butter. / The cake needs {n} minutes in the oven. / I put too much salt in the stew. / Grandma's dumplings are the best.
talk about a car / describe a vehicle => The engine makes a strange noise. / I need new tyres before winter. / He drives an old van. / The brakes were repaired on {day}.
talk about gardening / describe plants => The tomatoes are finally ripe. / I planted {n} tulip bulbs. / The hedge has to be trimmed. / Slugs ate all the lettuce.
talk about computers / describe software or hardware => I reinstalled the system and lost my files. / The laptop fan is loud. / She writes programs for banks. / The new phone has {n} gigabytes.
talk about a building / describe a house or flat => The flat has [three|four] rooms and a balcony. / They are tearing down the old factory. / The roof leaks again. / We bought a cottage near {city}.
talk about a wedding or a birth / describe a family event => My sister got married on {day}. / They had twins in {month}. / Grandfather turned ninety. / The whole family met for the christening.
talk about a crime / describe an offence => Somebody broke into the jewellery shop. / My bike was stolen in {city}. / The police arrested two burglars. / He was fined for fraud.
talk about politics / describe a vote or government => The mayor lost the vote. / Parliament passed the budget. / The minister stepped down. / {n} parties stand for election.
# form
ask a question / want an answer => [Does anybody|Do you] know when the [shop|pool|library] opens? / How old is the bridge in {city}? / Who painted this picture? / Where did you buy the {obj}? / Why is the sea salty?
give an instruction / tell someone what to do => [Press|Hold] the button for three seconds. / Fold the paper in half. / Turn left at the church and go up the hill. / Do not open the lid while it is hot. / First remove the screws, then lift the cover.
make a promise / promise something => I [promise|swear] I will be there. / You have my word. / I will pay you back on {day}, I promise. / We guarantee that it will be ready by {day}.
warn somebody / give a warning => [Careful|Watch out|Beware], the stairs are slippery! / Do not swim here, the current is strong. / Keep children away from the machine. / Danger: high voltage.
tell a joke / say something funny => I told my plants a joke, they are still growing from laughter. / Why did the tomato blush? It saw the salad dressing. / My diet starts tomorrow, as it has for {n} years. / I am on a seafood diet: I see food and eat it.
express a wish / hope for something => I wish I could fly. / If only it were {day} already. / I hope we get the house. / One day I want to see the northern lights.
# feel
be happy / feel joy / be in a good mood => I could [sing|dance|jump for joy]! / What a glorious day! / I have been grinning since {time}. / Life is beautiful.
be sad / feel grief / be unhappy => I [cried|wept] the whole night. / My heart is heavy. / Since {name} died, nothing is as before. / I miss {name} so badly.
be afraid / feel fear / worry => I [tremble|shiver] when I think of it. / What if something happens to {name}? / I did not dare to move. / The dark cellar terrifies me.
be angry / feel rage => I could [explode|smash something]! / {name} lied to me again, that snake! / I am seething. / They have no right to do this!
be surprised / feel amazement => I never saw that coming! / My jaw dropped. / You are kidding! / Who would have thought it?
be bored / feel boredom => Nothing ever happens here. / I stared at the wall for hours. / The talk was so dull that I dozed off.
be tired / feel exhausted => I can hardly keep my eyes open. / After {n} hours on my feet I am worn out. / I need sleep badly.
be grateful / feel thankful => I owe you so much. / Bless you for what you did. / I will never forget your kindness.
# when
talk about the past / describe something that already happened => That was back in {month}. / Years ago we did it differently. / It happened last {day}.
talk about the future / announce a plan => It is planned for next {month}. / We are going to do it on {day}. / Soon everything will change.
""",
"tenant": """
# fault!
report a water problem / describe a leak / complain about water damage => Water drips from the [ceiling|pipe under the sink]. / The [toilet|washing machine] overflows. / There is a puddle in the [hall|kitchen] every morning. / A pipe burst in the cellar.
report a heating problem / complain about the cold => The radiators stay cold. / We have had no heating since {day}. / It is only {n} degrees in the bedroom. / The boiler is dead again.
report an electrical problem / describe a power failure => The lights flicker. / Half of the sockets are dead. / The fuse blows every evening. / No power on the {n}th floor.
report a lift problem / complain about the elevator => The lift is stuck between two floors. / The elevator has been out of order for {n} days. / My mother cannot use the lift, she sits upstairs.
report a pest problem / complain about vermin => There are [mice|rats|cockroaches] in the kitchen. / Ants everywhere. / I hear scratching in the walls at night.
# neighbour!
complain about the neighbours / report noise next door => The people above us [stamp|party|shout] every night. / My neighbour drills at {time}. / Their dog barks without end.
praise the neighbours / find the neighbours friendly => The couple next door is lovely. / My neighbour waters my flowers when I am gone. / Everyone in the house helps each other.
# rent!
ask about the rent / want information on the rent => How much will the rent be from {month}? / Why has the rent gone up by {pct}? / When is the rent due?
want to move out / give notice / end the lease => We will move out at the end of {month}. / Please accept my notice for flat {n}. / I have found another flat and end the lease.
want to rent a flat / be interested in the apartment => Is the flat in {city} still free? / We would love to rent the apartment. / When can we see the rooms?
""",
"applicant": """
# exp
have experience / have worked in the field / be experienced => I have [worked|been] {n} years [as a baker|in sales|at a bank]. / At my last company I led a team of {n}. / I have done this job since {month}.
have no experience / be a beginner / look for a first job => I have just finished school. / This would be my first job. / I have never worked in this field but I learn fast. / Fresh from university, I look for a start.
# move!
be willing to move / be ready to relocate => I would gladly move to {city}. / Relocation is no problem for me. / I can change my place of residence at any time.
not want to move / want to stay in their town => I cannot leave {city}. / I only look for jobs near my home. / Moving is out of the question.
# start!
be able to start immediately / be available at once => I could start [tomorrow|right away|next {day}]. / I am free at once. / No notice period on my side.
be able to start only later / have a notice period => My notice period is three months. / I can begin in {month} at the earliest. / I am bound until {month}.
# skill!
speak foreign languages / mention language skills => I speak [French and Polish|three languages|fluent Spanish]. / My mother tongue is Arabic, my English is good. / I have a certificate in Chinese.
be able to drive / have a driving licence => I hold a driving licence [for trucks|for cars]. / I drive a forklift. / I have my own car and licence.
know how to program / mention programming skills => I write [Python|Java|code] every day. / I built web sites as a student. / I have developed software for {n} years.
lead people / mention leadership => I was head of a group of {n} people. / I ran the branch in {city}. / I have trained apprentices.
# pay!
mention a salary wish / say what they want to earn => I expect {price} a [month|day]. / My salary expectation is {price}. / Below {price} I will not start.
""",
"patient": """
# symptom!
have a headache / complain about pain in the head => My head has been [pounding|throbbing] since {day}. / I have a terrible migraine. / It hammers behind my forehead.
have a fever / have a high temperature => I measured [39|40] degrees this morning. / I am burning up and shivering. / The fever will not go down.
have a cough / complain about coughing => I cough all night. / A dry cough for {n} days. / I cannot stop coughing.
have stomach trouble / complain about the stomach => My [stomach|belly] cramps after every meal. / I have thrown up {n} times. / I feel sick when I smell food.
have an injury / have hurt themselves => I fell off the ladder and [my wrist is swollen|I cannot move my arm]. / I cut my hand with a knife. / I twisted my ankle on {day}.
have trouble sleeping / suffer from insomnia => I lie awake until {time}. / I have not slept properly for weeks. / Sleep just does not come.
# wish!
want an appointment / ask for a date with the doctor => Can I come by on {day}? / When is the next free slot? / I would like to see the doctor at {time}.
want a prescription / need more medicine => I am out of tablets, please write me a new prescription. / I need my [drops|insulin|ointment] again. / Could you renew my prescription?
want test results / ask about the lab => Are my blood values there? / What did the X-ray show? / I am waiting for the lab report.
# feel
feel better / be recovering => It is [much better|almost gone] now. / I can walk again. / The drops worked, I feel fine.
feel worse / be getting worse => It gets worse every [day|hour]. / Now it hurts even more. / I can hardly stand it any longer.
# allergy!
mention an allergy / be allergic to something => I cannot take penicillin, I get a rash. / I am allergic to [nuts|pollen|bee stings]. / My skin swells when I eat strawberries.
smoke / be a smoker => I smoke {n} cigarettes a day. / I lit one after breakfast as always. / I have tried to give up smoking.
""",
"student": """
# need!
ask for more time / want an extension / need a later deadline => Could I hand it in [on {day}|a week later]? / I will not make the deadline, may I have {n} more days? / Please extend the due date.
ask for help / need an explanation => I do not understand [task|chapter|exercise] {n}. / Could you explain the second step again? / I am lost with this proof.
hand in work / submit an assignment => Attached is my [essay|report|solution]. / Here is the homework for {day}. / I have uploaded my paper.
complain about a grade / disagree with the mark => I think my mark is [unfair|too low]. / You overlooked page {n} of my exam. / Why did I lose {n} points?
be absent / miss a class => I can't come to class on {day}. / I will miss the seminar. / Please excuse my absence.
ask for a letter / want a recommendation => Would you write a reference for me? / I need a letter of recommendation for {city}. / Could you support my scholarship application?
# mood
like the course / praise the teacher => Your lectures are the highlight of my week. / I have learned so much from you. / Best class I ever took.
dislike the course / criticise the teacher => The lessons are dry and confusing. / Nobody can follow your slides. / A waste of a semester.
""",
"driver": """
# event!
report an accident / describe a crash => A [van|tram|lorry] hit me from behind. / I slid into the ditch. / Two cars collided at the crossing. / I bumped into a lamp post.
report a breakdown / describe a car that does not run => The engine died on the motorway. / I am stranded near {city} with a flat tyre. / The car will not start. / Smoke comes from under the bonnet.
report a theft / describe a stolen vehicle => My [car|motorbike|trailer] is gone from the car park. / Somebody stole my [wheels|sat nav]. / The window is smashed and the bag is missing.
complain about a fine / disagree with a parking ticket => I got a ticket although I had paid. / {price} for five minutes is absurd. / I will not pay this fine.
# hurt!
be hurt / need an ambulance / report injured people => My neck hurts and I bleed. / Please send an ambulance. / The other driver is unconscious. / A passenger has a broken arm.
be unhurt / say that nobody is injured => Luckily nobody was hurt. / We are all fine, only metal damage. / No injuries, just dents.
# insurance!
mention the insurance / ask whether the insurance pays => Does my policy cover this? / I have reported it to my insurance. / Which documents does the insurer need?
want a tow truck / need to be towed => Please send a tow truck. / Can somebody pull me out? / The car has to be towed away.
""",
}
DESC = ["{t}", "the {s} {t}", "{t}, said in so many words or not", "The {s} {t}.", "it is clear that the {s} {t}"]


def third(vp):
    """base verb phrase -> third person"""
    w, _, rest = vp.partition(" ")
    if w == "not": return "does " + vp
    if w == "be": v = "is"
    elif w == "have": v = "has"
    elif w in ("would", "can"): v = w
    elif w.endswith(("s", "sh", "ch", "x", "o")): v = w + "es"
    elif w.endswith("y") and w[-2] not in "aeou": v = w[:-1] + "ies"
    else: v = w + "s"
    return (v + " " + rest).strip()


def load():
    """{context: [(group, closed, [(predicates, sentences)])]}"""
    out = {}
    for c, t in BANK.items():
        gs = []
        for line in t.strip().split("\n"):
            if line.startswith("# "):
                n = line[2:]; gs.append((n.rstrip("!"), n.endswith("!"), []))
            else:
                p, s = line.split(" => "); gs[-1][2].append((p.split(" / "), s.split(" / ")))
        out[c] = gs
    return out
