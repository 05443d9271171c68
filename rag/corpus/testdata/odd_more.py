"""Makes the odd files of odp, ods, mbox and archives, and adds what is in them to odd/expected.json:

    python odd_more.py FOLDER      (odfpy 1.4.1)
"""
import io
import json
import os
import sys
import tarfile
import zipfile

from odf import draw, opendocument, style, table, text

os.chdir(sys.argv[1])
cases = []


def case(file, what, says, never=(), heads=None, at=None):
    cases.append({"file": file, "what": what, "text": list(says), "never": list(never), "heads": heads or {},
                  "at": at or {}})


def sheet(doc, name, rows):
    t = table.Table(name=name)
    for row in rows:
        r = table.TableRow()
        for value in row:
            kind = {"valuetype": "string"}
            if isinstance(value, tuple):
                value, kind = value
            c = table.TableCell(**kind)
            if value is not None:
                c.addElement(text.P(text=value))
            r.addElement(c)
        t.addElement(r)
    doc.spreadsheet.addElement(t)
    return t


def ods(file, fill):
    doc = opendocument.OpenDocumentSpreadsheet()
    fill(doc)
    doc.save(file)


ods("two.ods", lambda d: (sheet(d, "Tides", [["Port", "High"], ["Bristol", "13.2"]]),
                          sheet(d, "Winds", [["Port", "Knots"], ["Dover", "21"]])))
case("two.ods", "two sheets", ["Port: Bristol | High: 13.2", "Port: Dover | Knots: 21"], at={"Knots: 21": "sheet=Winds"})
ods("kept.ods", lambda d: sheet(d, "Fees", [["Berth", "Fee"], ["A", ("1,500.00 €", {
    "valuetype": "currency", "currency": "EUR", "value": "1500"})]]))
case("kept.ods", "a currency as shown", ["Berth: A | Fee: 1,500.00 €"])


def repeated(d):
    t = sheet(d, "Log", [["Day", "Ship"], ["Monday", "Argo"]])
    r = table.TableRow(numberrowsrepeated=1000000)
    r.addElement(table.TableCell(numbercolumnsrepeated=1024))
    t.addElement(r)
    r = table.TableRow()
    for word in ("Tuesday", "Beagle"):
        c = table.TableCell(valuetype="string")
        c.addElement(text.P(text=word))
        r.addElement(c)
    t.addElement(r)


ods("far.ods", repeated)
case("far.ods", "a million empty rows between", ["Day: Monday | Ship: Argo", "Day: Tuesday | Ship: Beagle"])
ods("scripts.ods", lambda d: sheet(d, "港", [["港", "船"], ["横浜", "氷川丸"], ["חיפה", "ספינה"]]))
case("scripts.ods", "Japanese and Hebrew", ["港: 横浜 | 船: 氷川丸", "ספינה"])
ods("lines.ods", lambda d: sheet(d, "Crew", [["Name", "Tasks"], ["Ada", "steers\nand counts"]]))
case("lines.ods", "a line break in a cell", ["Name: Ada", "steers", "and counts"])


def odp(file, slides):
    doc = opendocument.OpenDocumentPresentation()
    layout = style.PageLayout(name="L")
    doc.automaticstyles.addElement(layout)
    doc.masterstyles.addElement(style.MasterPage(name="M", pagelayoutname=layout))
    for n, (title, paragraphs) in enumerate(slides):
        page = draw.Page(name=f"s{n}", masterpagename="M")
        for kind, lines in (("title", [title] if title else []), ("outline", paragraphs)):
            if not lines:
                continue
            frame = draw.Frame(width="20cm", height="4cm", x="1cm", y="1cm")
            frame.setAttrNS("urn:oasis:names:tc:opendocument:xmlns:presentation:1.0", "class", kind)
            box = draw.TextBox()
            for line in lines:
                box.addElement(line if not isinstance(line, str) else text.P(text=line))
            frame.addElement(box)
            page.addElement(frame)
        doc.presentation.addElement(page)
    doc.save(file)


long = " and the harbour is open all day and all night for ships of every size and flag that come in with the tide"
odp("two.odp", [("Tides", ["Tides come in twice" + long]), ("Winds", ["Winds turn at noon" + long])])
case("two.odp", "two slides", ["Tides come in twice", "Winds turn at noon"], heads={"Winds turn": "Winds"},
     at={"Winds turn": "slide=2"})
odp("untitled.odp", [(None, ["No title here" + long]), ("Last", ["The end" + long])])
case("untitled.odp", "a slide without a title", ["No title here", "The end"], at={"The end": "slide=2"})
odp("empty.odp", [("First", ["One" + long]), (None, []), ("Third", ["Three" + long])])
case("empty.odp", "an empty slide", ["One and", "Three and"], at={"Three and": "slide=3"})
bullets = text.List()
for word in ("rope", "anchor"):
    item = text.ListItem()
    item.addElement(text.P(text=word))
    bullets.addElement(item)
odp("list.odp", [("Bring", [bullets])])
case("list.odp", "a list", ["rope", "anchor"], heads={"anchor": "Bring"})
odp("scripts.odp", [("Γλώσσες", ["Πλοίο" + long, "船と港", "سفينة"])])
case("scripts.odp", "Greek, Japanese and Arabic", ["Πλοίο", "船と港", "سفينة"], heads={"船と港": "Γλώσσες"})


def mbox(file, what, raw, **known):
    with open(file, "wb") as f:
        f.write(raw.encode("utf-8"))
    case(file, what, **known)


def message(subject, body, head=""):
    return (f"From ada@sea.example Mon Nov 23 05:00:00 2026\nFrom: Ada <ada@sea.example>\nSubject: {subject}\n{head}\n"
            f"{body}\n\n")


mbox("quoted.mbox", "lines that begin with From, quoted", message("One", "Dear Bob,\n>From here it is far.\nAda")
     + message("Two", "Near."), says=["From here it is far.", "Near."], heads={"Near.": "Two"}, at={"Near.": "9"})
mbox("crlf.mbox", "CRLF", (message("One", "The first.") + message("Two", "The second.")).replace("\n", "\r\n"),
     says=["The first.", "The second."], heads={"The second.": "Two"})
mbox("nested.mbox", "HTML beside plain text", message("Parts", "--b\nContent-Type: text/plain\n\nPlain words.\n--b\n"
     "Content-Type: text/html\n\n<p>Marked words.</p>\n--b--", 'Content-Type: multipart/alternative; boundary="b"\n'),
     says=["Plain words."], never=["Marked words."])
mbox("utf8.mbox", "an encoded subject, quoted-printable", message("=?utf-8?q?Z=C3=BCrich?=", "Gr=C3=BC=C3=9Fe.",
     "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n"), says=["Grüße."],
     heads={"Grüße.": "Zürich"})
mbox("end.mbox", "a message without an end", message("One", "The first.") + "From bob@sea.example\nSubject: Two\n\nNo end",
     says=["The first.", "No end"])

with zipfile.ZipFile("names.zip", "w") as z:
    z.writestr("häfen/größe.txt", "Der Hafen ist groß.")
    z.writestr("b/crew.csv", "Name,Task\nAda,steers\n")
case("names.zip", "names that are not ASCII, a table", ["Der Hafen ist groß.", "Name: Ada | Task: steers"])
with zipfile.ZipFile("out.zip", "w") as z:
    z.writestr("../out.txt", "Outside of all.")
    z.writestr("in.txt", "Inside of it.")
case("out.zip", "a name that leads out", ["Inside of it."], never=["Outside"])
inner = io.BytesIO()
with zipfile.ZipFile(inner, "w") as z:
    z.writestr("deep.md", "# Deep\n\nDown below.\n")
with zipfile.ZipFile("nested.zip", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("inner.zip", inner.getvalue())
    z.writestr("top.txt", "At the top.")
case("nested.zip", "an archive in an archive", ["Down below.", "At the top."], heads={"Down below.": "Deep"})


def tar(file, mode, entries, what, **known):
    with tarfile.open(file, mode) as t:
        for name, data in entries:
            info = tarfile.TarInfo(name)
            if data is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                t.addfile(info)
            else:
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))
    case(file, what, **known)


tar("links.tar", "w", [("a.txt", b"A file."), ("b.txt", None)], "a link", says=["A file."], never=["root:"])
tar("long.tar.gz", "w:gz", [("d" * 90 + "/" + "e" * 90 + "/f.txt", b"A long way down."), ("g.json", b"{}")],
    "a path of 180 characters, another kind of file", says=["A long way down."])

with open("expected.json", encoding="utf-8") as f:
    known = json.load(f)
names = {c["file"] for c in cases}
with open("expected.json", "w", encoding="utf-8") as f:
    json.dump([c for c in known if c["file"] not in names] + cases, f, ensure_ascii=False, indent=1)
    f.write("\n")
