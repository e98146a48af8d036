"""The words: tables of nouns, verbs, adjectives and fixed phrases, each with its forms in English and German.

An underscore stands for a space inside an entry, a hyphen alone for a form that is not used.
"""

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Noun:
    """A noun: its forms, gender (m, f, n) and the classes that verbs and adjectives ask for.

    `weak` nouns (der Junge, den Jungen) look like their plural in every case but the nominative singular. A mass noun has no plural.
    """

    english: str
    english_plural: str
    gender: str
    weak: bool
    german: str
    german_plural: str
    classes: frozenset[str]


@dataclass(frozen=True)
class Verb:
    """A verb: English base, -s, -ing, past, participle; German forms for ich, du, er; what it may be used in; what it takes.

    `uses` holds letters: p present without a time, h habit, g progressive, t past, x present perfect, f future, m modals, l "likes to".
    `frame` names the arguments: case:classes:determiners, place:class, to:class and so on; a question mark makes one optional.
    """

    base: str
    third: str
    ing: str
    past: str
    participle: str
    prefix: str
    infinitive: str
    ich: str
    du: str
    er: str
    partizip: str
    auxiliary: str
    reflexive: bool
    uses: str
    frame: tuple[str, ...]


@dataclass(frozen=True)
class Adjective:
    """An adjective: English, German as a predicate, the German stem that takes endings, and its place before others."""

    english: str
    german: str
    stem: str
    rank: int


def listed(text: str) -> list[str]:
    return text.split()


# English, plural, gender (! for weak nouns), German, plural, classes
NOUNS = """
man          men            m   Mann          Männer          person adult
woman        women          f   Frau          Frauen          person adult
child        children       n   Kind          Kinder          person young
boy          boys           m!  Junge         Jungen          person young
girl         girls          n   Mädchen       Mädchen         person young
teacher      teachers       m   Lehrer        Lehrer          person adult
doctor       doctors        m   Arzt          Ärzte           person adult
student      students       m!  Student       Studenten       person adult
pupil        pupils         m   Schüler       Schüler         person young
neighbour    neighbours     m!  Nachbar       Nachbarn        person adult close
colleague    colleagues     m!  Kollege       Kollegen        person adult close
policeman    policemen      m!  Polizist      Polizisten      person adult
guest        guests         m   Gast          Gäste           person adult
waiter       waiters        m   Kellner       Kellner         person adult
friend       friends        m   Freund        Freunde         close family
mother       -              f   Mutter        -               family
father       -              m   Vater         -               family
parents      -              p   Eltern        Eltern           family
brother      brothers       m   Bruder        Brüder          family
sister       sisters        f   Schwester     Schwestern      family
grandmother  -              f   Großmutter    -               family
grandfather  -              m   Großvater     -               family
uncle        -              m   Onkel         -               family
aunt         -              f   Tante         -               family
son          sons           m   Sohn          Söhne           family
daughter     daughters      f   Tochter       Töchter         family
dog          dogs           m   Hund          Hunde           animal pet
cat          cats           f   Katze         Katzen          animal pet
horse        horses         n   Pferd         Pferde          animal
bird         birds          m   Vogel         Vögel           animal
mouse        mice           f   Maus          Mäuse           animal
cow          cows           f   Kuh           Kühe            animal
apple        apples         m   Apfel         Äpfel           food fruit
banana       bananas        f   Banane        Bananen         food fruit
tomato       tomatoes       f   Tomate        Tomaten         food
egg          eggs           n   Ei            Eier            food dish
cake         cakes          m   Kuchen        Kuchen          food bakes
pizza        pizzas         f   Pizza         Pizzas          food bakes ordered
soup         soups          f   Suppe         Suppen          dish ordered
salad        salads         m   Salat         Salate          food ordered
bread        -              n   Brot          -               food mass bakes
cheese       -              m   Käse          -               food mass
meat         -              n   Fleisch       -               food mass dish
rice         -              m   Reis          -               food mass dish
fruit        -              n   Obst          -               food mass
chocolate    -              f   Schokolade    -               food mass sweet
water        -              n   Wasser        -               drink mass
coffee       -              m   Kaffee        -               drink mass ordered
tea          -              m   Tee           -               drink mass ordered
milk         -              f   Milch         -               drink mass
juice        -              m   Saft          -               drink mass ordered
book         books          n   Buch          Bücher          reading written topic gift lies lent title
newspaper    newspapers     f   Zeitung       Zeitungen       reading lies paper
letter       letters        m   Brief         Briefe          reading written sent lies paper
email        emails         f   E-Mail        E-Mails         written mailed
story        stories        f   Geschichte    Geschichten     told title
postcard     postcards      f   Postkarte     Postkarten      written sent lies paper
film         films          m   Film          Filme           topic show title
song         songs          n   Lied          Lieder          sung
picture      pictures       n   Bild          Bilder          painted shown
photo        photos         n   Foto          Fotos           shown lies
dress        dresses        n   Kleid         Kleider         clothes long
shirt        shirts         n   Hemd          Hemden          clothes
jacket       jackets        f   Jacke         Jacken          clothes warm lies
coat         coats          m   Mantel        Mäntel          clothes warm long
hat          hats           m   Hut           Hüte            clothes lies
skirt        skirts         m   Rock          Röcke           clothes long
sweater      sweaters       m   Pullover      Pullover        clothes warm
shoes        -              p   Schuhe        Schuhe           shoes
table        tables         m   Tisch         Tische          furniture surface under
chair        chairs         m   Stuhl         Stühle          furniture surface under
bed          beds           n   Bett          Betten          furniture surface under
sofa         sofas          n   Sofa          Sofas           furniture surface behind
cupboard     cupboards      m   Schrank       Schränke        furniture inside beside
shelf        shelves        n   Regal         Regale          furniture surface beside
lamp         lamps          f   Lampe         Lampen          device stands beside household
computer     computers      m   Computer      Computer        device used stands repaired
radio        radios         n   Radio         Radios          device stands repaired
television   televisions    m   Fernseher     Fernseher       device stands repaired
car          cars           n   Auto          Autos           vehicle used parked rented inside behind
bicycle      bicycles       n   Fahrrad       Fahrräder       vehicle used parked rented lent
boat         boats          n   Boot          Boote           vehicle rented built
bus          buses          m   Bus           Busse           transport
train        trains         m   Zug           Züge            transport
window       windows        n   Fenster       Fenster         opened cleaned beside
door         doors          f   Tür           Türen           opened behind beside
box          boxes          f   Kiste         Kisten          container carried stands inside
bottle       bottles        f   Flasche       Flaschen        container stands household
suitcase     suitcases      m   Koffer        Koffer          container carried stands inside
bag          bags           f   Tasche        Taschen         carried lost stands inside
key          keys           m   Schlüssel     Schlüssel       lost lies small
umbrella     umbrellas      m   Regenschirm   Regenschirme    lost lies small lent
pencil       pencils        m   Bleistift     Bleistifte      small lies lent
ball         balls          m   Ball          Bälle           small lies gift toy
camera       cameras        f   Kamera        Kameras         lost lies gift lent
watch        watches        f   Uhr           Uhren           lost lies gift repaired worn
knife        knives         n   Messer        Messer          lies household
cup          cups           f   Tasse         Tassen          stands household
glass        glasses        n   Glas          Gläser          stands household
plate        plates         m   Teller        Teller          stands household
flower       flowers        f   Blume         Blumen          gift plant
tree         trees          m   Baum          Bäume           plant under
present      presents       n   Geschenk      Geschenke       sent
question     questions      f   Frage         Fragen          explained
word         words          n   Wort          Wörter          explained
problem      problems       n   Problem       Probleme        explained topic
kitchen      kitchens       f   Küche         Küchen          place inroom tidy
garden       gardens        m   Garten        Gärten          place outdoor work
park         parks          m   Park          Parks           place outdoor go
forest       forests        m   Wald          Wälder          place outdoor go
beach        beaches        m   Strand        Strände         place outdoor go
lake         lakes          m   See           Seen            place outdoor go
city         cities         f   Stadt         Städte          place live go
village      villages       n   Dorf          Dörfer          place live
house        houses         n   Haus          Häuser          building live built behind
flat         flats          f   Wohnung       Wohnungen       place live tidy rented
room         rooms          n   Zimmer        Zimmer          place inroom tidy rented
office       offices        n   Büro          Büros           place work tidy go
hospital     hospitals      n   Krankenhaus   Krankenhäuser   place work go
school       schools        f   Schule        Schulen         place work go
library      libraries      f   Bibliothek    Bibliotheken    place work go
museum       museums        n   Museum        Museen          place work go visited
supermarket  supermarkets   m   Supermarkt    Supermärkte     place work go shop
market       markets        m   Markt         Märkte          place go shop
restaurant   restaurants    n   Restaurant    Restaurants     place work go
hotel        hotels         n   Hotel         Hotels          place work go
cinema       cinemas        n   Kino          Kinos           place go
station      stations       m   Bahnhof       Bahnhöfe        place stop
airport      airports       m   Flughafen     Flughäfen       place stop work
concert      concerts       n   Konzert       Konzerte        event
party        parties        f   Party         Partys          event
meeting      meetings       f   Besprechung   Besprechungen   event
holiday      holidays       m   Urlaub        -               awaited
weekend      weekends       n   Wochenende    Wochenenden     awaited
money        -              n   Geld          -               mass owned
time         -              f   Zeit          -               mass owned
weather      -              n   Wetter        -               sky
sun          -              f   Sonne         -               sky
"""

# English base, -s, -ing, past, participle | German infinitive (prefix-stem), ich, du, er, participle, auxiliary | uses | frame
VERBS = """
read reads reading read read | lesen lese liest liest gelesen haben | hgtxfml | acc:reading:idp
write writes writing wrote written | schreiben schreibe schreibst schreibt geschrieben haben | gtxfml | acc:written:i
buy buys buying bought bought | kaufen kaufe kaufst kauft gekauft haben | gtfm | acc:food,drink,ware:i for? place?:shop
sell sells selling sold sold | verkaufen verkaufe verkaufst verkauft verkauft haben | gtxfm | acc:vehicle,furniture,house,device:dp
eat eats eating ate eaten | essen esse isst isst gegessen haben | hgtfml | acc:food,soup:i place?:inroom
drink drinks drinking drank drunk | trinken trinke trinkst trinkt getrunken haben | hgtfml | acc:drink:i
cook cooks cooking cooked cooked | kochen koche kochst kocht gekocht haben | gtfml | acc:dish:i for?
order orders ordering ordered ordered | bestellen bestelle bestellst bestellt bestellt haben | gtxfm | acc:ordered:i
see sees seeing saw seen | sehen sehe siehst sieht gesehen haben | ptm | acc:person,family,animal,transport,show,building,plant:idp
hear hears hearing heard heard | hören höre hörst hört gehört haben | pt | acc:person,animal,family:dp
look_for looks_for looking_for looked_for looked_for | suchen suche suchst sucht gesucht haben | gtfm | acc:lost,small,pet,shoes,clothes,stop:dp
find finds finding found found | finden finde findest findet gefunden haben | tm | acc:lost,small,shoes,clothes:dp
lose loses losing lost lost | verlieren verliere verlierst verliert verloren haben | t | acc:lost,small:p
forget forgets forgetting forgot forgotten | vergessen vergesse vergisst vergisst vergessen haben | t | acc:lost,small:p
repair repairs repairing repaired repaired | reparieren repariere reparierst repariert repariert haben | gtxfm | acc:vehicle,repaired:dp
wash washes washing washed washed | waschen wasche wäschst wäscht gewaschen haben | gtxfm | acc:parked,clothes:dp
clean cleans cleaning cleaned cleaned | putzen putze putzst putzt geputzt haben | gtxfm | acc:cleaned,shoes,inroom:dp
open opens opening opened opened | öffnen öffne öffnest öffnet geöffnet haben | gtxfm | acc:opened,container:d
close closes closing closed closed | schließen schließe schließt schließt geschlossen haben | gtxfm | acc:opened:d
paint paints painting painted painted | malen male malst malt gemalt haben | gtfml | acc:painted,animal,plant,building:i
carry carries carrying carried carried | tragen trage trägst trägt getragen haben | gtfm | acc:carried:idp
wear wears wearing wore worn | tragen trage trägst trägt getragen haben | hgtfml | acc:clothes:a
visit visits visiting visited visited | besuchen besuche besuchst besucht besucht haben | hgtfml | acc:family,city,visited:idp
know knows knowing knew known | kennen kenne kennst kennt gekannt haben | p | acc:person,title,city:dp
like likes liking liked liked | mögen mag magst mag gemocht haben | p | acc:person,animal,title,clothes,food,drink:bdp
love loves loving loved loved | lieben liebe liebst liebt geliebt haben | p | acc:family,pet:p
need needs needing needed needed | brauchen brauche brauchst braucht gebraucht haben | p | acc:ware,money:i
have has having had had | haben habe hast hat gehabt haben | p | acc:animal,vehicle,lost,small,device,clothes,question,problem,house,owned:i
understand understands understanding understood understood | verstehen verstehe verstehst versteht verstanden haben | ptm | acc:explained,title,person:d
ask asks asking asked asked | fragen frage fragst fragt gefragt haben | gtxfm | acc:person,family:dp
meet meets meeting met met | treffen treffe triffst trifft getroffen haben | htfm | acc:person,family:dp place?:go
call calls calling called called | an-rufen rufe rufst ruft angerufen haben | hgtxfm | acc:close,family:p
invite invites inviting invited invited | ein-laden lade lädst lädt eingeladen haben | gtxfm | acc:close,family:p
pick_up picks_up picking_up picked_up picked_up | ab-holen hole holst holt abgeholt haben | hgtfm | acc:family,young:dp place?:stop
turn_on turns_on turning_on turned_on turned_on | ein-schalten schalte schaltest schaltet eingeschaltet haben | gtxfm | acc:device:d
turn_off turns_off turning_off turned_off turned_off | aus-schalten schalte schaltest schaltet ausgeschaltet haben | gtxfm | acc:device:d
put_on puts_on putting_on put_on put_on | an-ziehen ziehe ziehst zieht angezogen haben | gtxfm | acc:clothes,shoes:dp
tidy_up tidies_up tidying_up tidied_up tidied_up | auf-räumen räume räumst räumt aufgeräumt haben | hgtxfm | acc:tidy:dp
throw_away throws_away throwing_away threw_away thrown_away | weg-werfen werfe wirfst wirft weggeworfen haben | gtxfm | acc:paper,container,shoes:d
wait waits waiting waited waited | warten warte wartest wartet gewartet haben | hgtm | prep:for:auf:acc:person,family,transport:dp place?:stop
think thinks thinking thought thought | denken denke denkst denkt gedacht haben | hgt | prep:of:an:acc:family,awaited:p
talk talks talking talked talked | sprechen spreche sprichst spricht gesprochen haben | gtfml | prep:about:über:acc:topic,awaited,family:dp
look_forward looks_forward looking_forward looked_forward looked_forward | sich_freuen freue freust freut gefreut haben | g | prep:to:auf:acc:awaited,event:d
watch watches watching watched watched | beobachten beobachte beobachtest beobachtet beobachtet haben | gtml | acc:animal:idp place?:outdoor
feed feeds feeding fed fed | füttern füttere fütterst füttert gefüttert haben | hgtxfm | acc:pet,horse,cow,bird:dp
use uses using used used | benutzen benutze benutzt benutzt benutzt haben | htm | acc:used:dp
rent rents renting rented rented | mieten miete mietest mietet gemietet haben | gtxfm | acc:rented:i
build builds building built built | bauen baue baust baut gebaut haben | gtfm | acc:built:i for?
plant plants planting planted planted | pflanzen pflanze pflanzt pflanzt gepflanzt haben | gtfm | acc:plant:i place?:outdoor
help helps helping helped helped | helfen helfe hilfst hilft geholfen haben | hgtfml | dat:person,family:dp place?:inroom
thank thanks thanking thanked thanked | danken danke dankst dankt gedankt haben | tfm | dat:person,family:dp
answer answers answering answered answered | antworten antworte antwortest antwortet geantwortet haben | tfm | dat:person,family:dp
trust trusts trusting trusted trusted | vertrauen vertraue vertraust vertraut vertraut haben | p | dat:person,family:dp
follow follows following followed followed | folgen folge folgst folgt gefolgt sein | gtfm | dat:person,animal:d
listen_to listens_to listening_to listened_to listened_to | zu-hören höre hörst hört zugehört haben | gt | dat:person,family:dp
give gives giving gave given | geben gebe gibst gibt gegeben haben | gtxfm | dat:person,family:dp acc:gift,lost,small,fruit:i
show shows showing showed shown | zeigen zeige zeigst zeigt gezeigt haben | gtxfm | dat:person,family:dp acc:shown,house,city,vehicle,reading:dp
send sends sending sent sent | schicken schicke schickst schickt geschickt haben | gtxfm | dat:close,family:p acc:sent,mailed,shown:i
lend lends lending lent lent | leihen leihe leihst leiht geliehen haben | txfm | dat:close,family:p acc:lent:idp
tell tells telling told told | erzählen erzähle erzählst erzählt erzählt haben | hgtfml | dat:young,family:dp acc:told:i
read reads reading read read | vor-lesen lese liest liest vorgelesen haben | hgtfml | dat:young:d acc:told:i
bring brings bringing brought brought | bringen bringe bringst bringt gebracht haben | gtxfm | dat:person,family:dp acc:drink,sent,gift,household:i
explain explains explaining explained explained | erklären erkläre erklärst erklärt erklärt haben | gtxfm | dative_to:person,family:dp acc:explained:d
sleep sleeps sleeping slept slept | schlafen schlafe schläfst schläft geschlafen haben | gtfm | place?:inroom
laugh laughs laughing laughed laughed | lachen lache lachst lacht gelacht haben | gt | how?:loudly
cry cries crying cried cried | weinen weine weinst weint geweint haben | gt | how?:quietly
dance dances dancing danced danced | tanzen tanze tanzt tanzt getanzt haben | gtfml | with?:close place?:inroom
swim swims swimming swam swum | schwimmen schwimme schwimmst schwimmt geschwommen sein | htfml | how?:fast,well
sing sings singing sang sung | singen singe singst singt gesungen haben | hgtfml | acc:sung:i
get_up gets_up getting_up got_up got_up | auf-stehen stehe stehst steht aufgestanden sein | htxfm | at
wake_up wakes_up waking_up woke_up woken_up | auf-wachen wache wachst wacht aufgewacht sein | htf | at
come_back comes_back coming_back came_back come_back | zurück-kommen komme kommst kommt zurückgekommen sein | txfm | at?
arrive arrives arriving arrived arrived | an-kommen komme kommst kommt angekommen sein | txf | at? place?:stop
go_shopping goes_shopping going_shopping went_shopping gone_shopping | ein-kaufen kaufe kaufst kauft eingekauft haben | htfml | with?:close place?:shop
watch_television watches_television watching_television watched_television watched_television | fern-sehen sehe siehst sieht ferngesehen haben | hgtfml | with?:close
rest rests resting rested rested | sich_aus-ruhen ruhe ruhst ruht ausgeruht haben | gtfm | place?:inroom
live lives living lived lived | wohnen wohne wohnst wohnt gewohnt haben | p | place:live
work works working worked worked | arbeiten arbeite arbeitest arbeitet gearbeitet haben | hgtfml | place:work
play plays playing played played | spielen spiele spielst spielt gespielt haben | hgtfml | with:pet,close place?:outdoor
wait waits waiting waited waited | warten warte wartest wartet gewartet haben | gtfm | place:stop
stay stays staying stayed stayed | bleiben bleibe bleibst bleibt geblieben sein | htfm | home
go goes going went gone | gehen gehe gehst geht gegangen sein | hgtfml | to:go with?:close,pet
drive drives driving drove driven | fahren fahre fährst fährt gefahren sein | hgtfm | to:go,stop with?:close
run runs running ran run | laufen laufe läufst läuft gelaufen sein | hgtfml | to:outdoor,stop
travel travels travelling travelled travelled | reisen reise reist reist gereist sein | htfml | abroad by?
fly flies flying flew flown | fliegen fliege fliegst fliegt geflogen sein | htfm | abroad with?:close
play plays playing played played | spielen spiele spielst spielt gespielt haben | hgtfml | game with?:close
speak speaks speaking spoke spoken | sprechen spreche sprichst spricht gesprochen haben | pm | language
learn learns learning learned learned | lernen lerne lernst lernt gelernt haben | gtfml | language with?:close
"""  # noqa: E501

# verbs that have patterns of their own in generate.py
SPECIAL_VERBS = """
know knows knowing knew known | wissen weiß weißt weiß gewusst haben | - |
think thinks thinking thought thought | glauben glaube glaubst glaubt geglaubt haben | - |
hope hopes hoping hoped hoped | hoffen hoffe hoffst hofft gehofft haben | - |
say says saying said said | sagen sage sagst sagt gesagt haben | - |
rain rains raining rained rained | regnen regne regnest regnet geregnet haben | - |
snow snows snowing snowed snowed | schneien schneie schneist schneit geschneit haben | - |
shine shines shining shone shone | scheinen scheine scheinst scheint geschienen haben | - |
be is being was been | liegen liege liegst liegt gelegen haben | - |
be is being was been | stehen stehe stehst steht gestanden haben | - |
put puts putting put put | legen lege legst legt gelegt haben | - |
put puts putting put put | stellen stelle stellst stellt gestellt haben | - |
belong_to belongs_to belonging_to belonged_to belonged_to | gehören gehöre gehörst gehört gehört haben | - |
cost costs costing cost cost | kosten koste kostest kostet gekostet haben | - |
leave leaves leaving left left | ab-fahren fahre fährst fährt abgefahren sein | - |
begin begins beginning began begun | beginnen beginne beginnst beginnt begonnen haben | - |
take_place takes_place taking_place took_place taken_place | statt-finden finde findest findet stattgefunden haben | - |
"""
# English, German, classes it stands before as an attribute; the stem is given where the ending changes it; the rank orders several
ADJECTIVES = """
beautiful    schön        -       0  clothes,furniture,vehicle,place,building,sung,painted,gift,plant
expensive    teuer        teur    0  clothes,furniture,vehicle,lost,device,shoes
cheap        billig       -       0  clothes,furniture,vehicle,device,shoes
nice         nett         -       0  person,close
friendly     freundlich   -       0  person
clever       klug         -       0  person,animal
famous       berühmt      -       0  man,woman,doctor,museum,title
funny        lustig       -       0  told,title
interesting  interessant  -       0  reading,told,title,written
boring       langweilig   -       0  title,meeting
important    wichtig      -       0  letter,email,meeting,explained
difficult    schwierig    -       0  explained
simple       einfach      -       0  explained
fresh        frisch       -       0  fruit,tomato,egg,bread,milk,salad
warm         warm         -       0  warm,soup,milk
cold         kalt         -       0  water,juice,milk
hot          heiß         -       0  soup,coffee,tea
sweet        süß          -       0  fruit,cake
quiet        ruhig        -       0  village,room,park,hotel,library
dirty        schmutzig    -       0  clothes,shoes,household,cleaned,parked
empty        leer         -       0  container
heavy        schwer       -       0  carried
big          groß         -       1  animal,furniture,vehicle,container,place,building,plant
small        klein        -       1  young,animal,furniture,vehicle,container,place,building,gift,lost,device,plant
long         lang         -       1  long,written,told
short        kurz         -       1  long,written,told
tall         groß         -       1  adult,man,boy
young        jung         -       2  adult,animal
old          alt          -       2  adult,animal,furniture,vehicle,building,clothes,shoes,reading,device,lost,title,transport
new          neu          -       2  furniture,vehicle,building,clothes,shoes,reading,device,lost,title,work,flat,close
red          rot          -       3  clothes,furniture,vehicle,carried,shoes,apple,tomato,flower,household,toy
blue         blau         -       3  clothes,furniture,vehicle,carried,shoes,household,toy,umbrella
green        grün         -       3  clothes,furniture,vehicle,carried,shoes,household,toy,umbrella
yellow       gelb         -       3  clothes,vehicle,flower,toy,umbrella,bus
black        schwarz      -       3  clothes,vehicle,shoes,pet,horse,bird,umbrella
white        weiß         -       3  clothes,furniture,vehicle,shoes,pet,horse,flower
brown        braun        -       3  clothes,shoes,pet,horse,cow,bag
"""

# what a person or a thing can be said to be
FEELINGS = listed("tired:müde ill:krank hungry:hungrig thirsty:durstig happy:glücklich sad:traurig angry:wütend nervous:nervös")
TRAITS = listed("friendly:freundlich clever:klug famous:berühmt rich:reich poor:arm lazy:faul strong:stark polite:höflich funny:lustig")
QUALITIES = {
    "clothes": "expensive:teuer cheap:billig beautiful:schön new:neu dirty:schmutzig",
    "furniture": "expensive:teuer cheap:billig old:alt new:neu heavy:schwer small:klein",
    "vehicle": "expensive:teuer cheap:billig old:alt new:neu broken:kaputt fast:schnell",
    "device": "expensive:teuer cheap:billig old:alt new:neu broken:kaputt",
    "title": "interesting:interessant boring:langweilig funny:lustig long:lang short:kurz",
    "food": "delicious:lecker good:gut cheap:billig expensive:teuer",
    "drink": "good:gut delicious:lecker cheap:billig expensive:teuer",
    "place": "big:groß small:klein beautiful:schön quiet:ruhig old:alt",
    "explained": "difficult:schwierig simple:einfach important:wichtig",
    "carried": "heavy:schwer light:leicht empty:leer full:voll old:alt",
}
# English and German comparative, for which nouns
COMPARATIVES = """
older:älter                        person family animal furniture building
younger:jünger                     person family animal
taller:größer                      person family
stronger:stärker                   person animal
bigger:größer                      animal furniture building place vehicle
smaller:kleiner                    animal furniture building place vehicle
faster:schneller                   vehicle transport
cheaper:billiger                   clothes furniture vehicle device
heavier:schwerer                   furniture carried
more_expensive:teurer              clothes furniture vehicle device
more_beautiful:schöner             clothes place
more_interesting:interessanter     title
"""

NAMES = {
    "m": listed("Peter Paul Tim David Martin Daniel Simon Robert Michael Ben Leon Jakob"),
    "f": listed("Anna Maria Lena Sophie Emma Clara Laura Julia Nina Eva Sarah Lisa"),
}
CITIES = listed("Berlin:Berlin Hamburg:Hamburg Munich:München Vienna:Wien Cologne:Köln London:London Zurich:Zürich Rome:Rom")
COUNTRIES = listed("Germany:Deutschland Austria:Österreich France:Frankreich Italy:Italien Spain:Spanien England:England")
LANGUAGES = listed("German:Deutsch English:Englisch French:Französisch Spanish:Spanisch Italian:Italienisch")
GAMES = listed("football:Fußball chess:Schach tennis:Tennis cards:Karten the_piano:Klavier the_guitar:Gitarre")
NUMBERS = listed("two:zwei three:drei four:vier five:fünf six:sechs seven:sieben eight:acht nine:neun ten:zehn eleven:elf twelve:zwölf")
# for a woman the second form
PROFESSIONS = listed("""
teacher:Lehrer:Lehrerin doctor:Arzt:Ärztin student:Student:Studentin cook:Koch:Köchin baker:Bäcker:Bäckerin
engineer:Ingenieur:Ingenieurin gardener:Gärtner:Gärtnerin lawyer:Anwalt:Anwältin musician:Musiker:Musikerin pilot:Pilot:Pilotin
""")

# English preposition for being there, German prepositions for being there (dative) and for going there; "in" unless named
PLACES = {
    "school": ("at", "in", "in"),
    "beach": ("on", "an", "an"),
    "lake": ("at", "an", "an"),
    "market": ("at", "auf", "auf"),
    "cinema": ("at", "in", "in"),
    "station": ("at", "an", "zu"),
    "airport": ("at", "an", "zu"),
}
# where a thing can be: English, German preposition, class of the noun
POSITIONS = listed("""
on:auf:surface under:unter:under in:in:inside next_to:neben:beside behind:hinter:behind in_front_of:vor:behind
""")

# times by what they go with; links are needed only where the words do not pair off one by one
TIMES = {
    "h": "every day:jeden Tag|every morning:jeden Morgen|every evening:jeden Abend|every weekend:jedes Wochenende|every week:jede Woche",
    "g": "today:heute|now:jetzt|at the moment:im Moment:0-0 1-0 2-1|right now:gerade",
    "t": "yesterday:gestern|last week:letzte Woche|last year:letztes Jahr|this morning:heute Morgen|yesterday evening:gestern Abend"
    "|three days ago:vor drei Tagen:0-1 1-2 2-0|two weeks ago:vor zwei Wochen:0-1 1-2 2-0|last summer:letzten Sommer",
    "f": "tomorrow:morgen|next week:nächste Woche|next year:nächstes Jahr|this evening:heute Abend|tomorrow morning:morgen früh|soon:bald",
    "m": "today:heute|tomorrow:morgen|this evening:heute Abend|this week:diese Woche|now:jetzt",
}
DAYS = listed("Monday:Montag Tuesday:Dienstag Wednesday:Mittwoch Thursday:Donnerstag Friday:Freitag Saturday:Samstag Sunday:Sonntag")
FREQUENCIES = listed("often:oft always:immer never:nie sometimes:manchmal usually:meistens")
MANNERS = listed("loudly:laut quietly:leise fast:schnell well:gut")


WARE = frozenset(("clothes", "shoes", "furniture", "vehicle", "gift", "device", "lost", "household", "small"))  # what is bought


def _nouns() -> dict[str, Noun]:
    rows = [line.split() for line in NOUNS.strip().split("\n")]
    return {
        english: Noun(english, plural, gender[0], gender.endswith("!"), german, german_plural, _classes(english, *classes))
        for english, plural, gender, german, german_plural, *classes in rows
    }


def _classes(*names: str) -> frozenset[str]:
    return frozenset(names) | ({"ware"} if WARE & set(names) else set())


def _verbs(table: str) -> list[Verb]:
    verbs = []
    for line in table.strip().split("\n"):
        english, german, uses, frame = (part.split() for part in line.split("|"))
        infinitive, *forms = german
        reflexive, infinitive = infinitive.startswith("sich_"), infinitive.removeprefix("sich_")
        prefix, _, stem = infinitive.rpartition("-")
        verbs.append(Verb(*(form.replace("_", " ") for form in english), prefix, stem, *forms, reflexive, uses[0], tuple(frame)))
    return verbs


def _adjectives() -> list[tuple[Adjective, frozenset[str]]]:
    rows = [line.split() for line in ADJECTIVES.strip().split("\n")]
    return [
        (Adjective(english, german, german if stem == "-" else stem, int(rank)), frozenset(classes.split(",")))
        for english, german, stem, rank, classes in rows
    ]


NOUN = _nouns()
VERB = _verbs(VERBS)
SPECIAL = {verb.prefix + verb.infinitive: verb for verb in _verbs(SPECIAL_VERBS)}
ADJECTIVE = _adjectives()


@cache
def nouns_of(classes: tuple[str, ...]) -> list[Noun]:
    return [noun for noun in NOUN.values() if not noun.classes.isdisjoint(classes)]


@cache
def verbs_for(*uses: str) -> list[Verb]:
    return [verb for verb in VERB if all(use in verb.uses for use in uses)]


@cache
def adjectives_for(noun: Noun) -> list[Adjective]:
    return [adjective for adjective, classes in ADJECTIVE if not classes.isdisjoint(noun.classes)]
