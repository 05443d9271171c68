"""Makes the odd files of odd_test.go and odd/expected.json, which says what is in them, with the libraries of formats.py:

    python odd.py FOLDER
"""
import email.message
import io
import json
import os
import sys
import zipfile

import docx
import openpyxl
import pptx
import pypdf
from ebooklib import epub
from odf import draw, opendocument, table, text
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from pptx.util import Inches
from reportlab.lib.pagesizes import A5
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen import canvas

os.chdir(sys.argv[1])
cases = []


def case(file, what, says, never=(), heads=None, at=None):
    """says are pieces of text in their order, never what must not be there, heads the headings above a piece, at its
    place: an anchor, or the line of the file."""
    cases.append({"file": file, "what": what, "text": list(says), "never": list(never), "heads": heads or {},
                  "at": at or {}})


def slim(file):
    """Takes the preview out of an Office document."""
    parts = {}
    with zipfile.ZipFile(file) as z:
        for name in z.namelist():
            parts[name] = z.read(name)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in parts.items():
            if not name.endswith(("thumbnail.jpeg", "stylesWithEffects.xml", "theme1.xml", "printerSettings1.bin")):
                z.writestr(name, data)


# Word
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
d = docx.Document()
d.add_heading("Tides", 1)
t = d.add_table(rows=3, cols=3)
for i, row in enumerate([["Harbour", "Water", ""], ["", "High", "Low"], ["Bristol", "13.2 m", "0.9 m"]]):
    for j, word in enumerate(row):
        t.cell(i, j).text = word
t.cell(0, 1).merge(t.cell(0, 2))
t.cell(0, 0).merge(t.cell(1, 0))
d.save("merged.docx")
slim("merged.docx")
case("merged.docx", "merged cells", ["Harbour", "Water", "High | Low", "Bristol | 13.2 m | 0.9 m"], heads={"Bristol": "Tides"})

d = docx.Document()
d.add_heading("Crew", 1)
t = d.add_table(rows=1, cols=2)
t.cell(0, 0).text = "Captain"
inner = t.cell(0, 1).add_table(rows=1, cols=2)
inner.cell(0, 0).text = "Ada"
inner.cell(0, 1).text = "Lovelace"
d.add_paragraph("Behind the table.")
d.save("nested.docx")
slim("nested.docx")
case("nested.docx", "a table in a table", ["Captain", "Ada", "Lovelace", "Behind the table."], heads={"Ada": "Crew"})

d = docx.Document()
d.add_heading("Contract", 1)
p = d.add_paragraph("The fee is ")
p._p.append(docx.oxml.parse_xml(f'<w:del {W} w:id="1" w:author="x"><w:r><w:delText>thirty</w:delText></w:r></w:del>'))
p._p.append(docx.oxml.parse_xml(f'<w:ins {W} w:id="2" w:author="x"><w:r><w:t>forty</w:t></w:r></w:ins>'))
p.add_run(" pounds.")
d.save("tracked.docx")
slim("tracked.docx")
case("tracked.docx", "tracked changes", ["The fee is forty pounds."], ["thirty"], heads={"forty": "Contract"})

d = docx.Document()
d.add_heading("Notice", 1)
p = d.add_paragraph("Before the box.")
p._p.append(docx.oxml.parse_xml(
    f'<w:r {W} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" xmlns:v="urn:schemas-microsoft-com:vml">'
    '<mc:AlternateContent><mc:Choice Requires="wps"><wps:txbx><w:txbxContent><w:p><w:r><w:t>Text in a box.</w:t></w:r></w:p>'
    '</w:txbxContent></wps:txbx></mc:Choice><mc:Fallback><v:textbox><w:txbxContent><w:p><w:r><w:t>Text in a box.</w:t></w:r>'
    '</w:p></w:txbxContent></v:textbox></mc:Fallback></mc:AlternateContent></w:r>'))
d.add_paragraph("After the box.")
d.save("box.docx")
slim("box.docx")
case("box.docx", "a text box, said twice", ["Before the box.", "Text in a box.", "After the box."],
     ["Text in a box. Text in a box."], heads={"After the box.": "Notice"})

d = docx.Document()
d.add_heading("נמל", 1)
d.add_paragraph("הספינה עוגנת בנמל.")
d.add_heading("灯台", 2)
d.add_paragraph("灯台は船を導く。")
d.save("scripts.docx")
slim("scripts.docx")
case("scripts.docx", "Hebrew and Japanese", ["הספינה עוגנת בנמל.", "灯台は船を導く。"], heads={"灯台は": "נמל › 灯台"})

# PowerPoint
s = pptx.Presentation()
one = s.slides.add_slide(s.slide_layouts[6])
low = one.shapes.add_textbox(Inches(1), Inches(4), Inches(4), Inches(1))
low.text_frame.text = "Second, below."
high = one.shapes.add_textbox(Inches(1), Inches(1), Inches(4), Inches(1))
high.text_frame.text = "First, above."
s.save("order.pptx")
slim("order.pptx")
case("order.pptx", "boxes drawn from below", ["First, above.", "Second, below."], at={"First, above.": "slide=1"})

s = pptx.Presentation()
one = s.slides.add_slide(s.slide_layouts[5])
one.shapes.title.text = "Groups"
g = one.shapes.add_group_shape()
g.shapes.add_textbox(0, 0, Inches(2), Inches(1)).text_frame.text = "In a group."
s.slides.add_slide(s.slide_layouts[6])
three = s.slides.add_slide(s.slide_layouts[5])
three.shapes.title.text = "Third"
three.notes_slide.notes_text_frame.text = "Said, not shown."
s.save("groups.pptx")
slim("groups.pptx")
case("groups.pptx", "groups, an empty slide, notes", ["In a group.", "Said, not shown."], heads={"In a group.": "Groups"},
     at={"In a group.": "slide=1", "Said, not shown.": "slide=3"})

s = pptx.Presentation()
one = s.slides.add_slide(s.slide_layouts[5])
one.shapes.title.text = "Fees"
t = one.shapes.add_table(3, 2, 0, 0, Inches(4), Inches(2)).table
for i, row in enumerate([["Fees of 2024", ""], ["Berth", "30"], ["Crane", "80"]]):
    for j, word in enumerate(row):
        t.cell(i, j).text = word
t.cell(0, 0).merge(t.cell(0, 1))
s.save("merged.pptx")
slim("merged.pptx")
case("merged.pptx", "merged cells", ["Fees of 2024", "Berth | 30", "Crane | 80"], heads={"Crane": "Fees"}, at={"Crane": "slide=1"})

s = pptx.Presentation()
one = s.slides.add_slide(s.slide_layouts[1])
one.shapes.title.text = "Two lines\vof a title"
body = one.placeholders[1].text_frame
body.text = "Point"
p = body.add_paragraph()
p.text, p.level = "Point below", 1
s.save("levels.pptx")
slim("levels.pptx")
case("levels.pptx", "a title of two lines, levels", ["Point", "Point below"], heads={"Point below": "Two lines of a title"},
     at={"Point below": "slide=1"})

s = pptx.Presentation()
one = s.slides.add_slide(s.slide_layouts[1])
one.shapes.title.text = "潮汐"
one.placeholders[1].text = "満潮は正午です。\nمد عال عند الظهر."
s.save("scripts.pptx")
slim("scripts.pptx")
case("scripts.pptx", "Japanese and Arabic", ["満潮は正午です。", "مد عال عند الظهر."], heads={"満潮は": "潮汐"}, at={"満潮は": "slide=1"})

# Excel
w = openpyxl.Workbook()
a = w.active
a.title = "Tides"
for row in [["Harbour", "Water", None], [None, "High", "Low"], ["Bristol", 13.2, 0.9]]:
    a.append(row)
a.merge_cells("B1:C1")
a.merge_cells("A1:A2")
w.save("merged.xlsx")
case("merged.xlsx", "merged cells in a header of two rows", ["Harbour: Bristol", "Water High: 13.2", "Water Low: 0.9"],
     heads={"Bristol": "merged › Tides"}, at={"Bristol": "sheet=Tides"})

w = openpyxl.Workbook()
a = w.active
a.title = "Rich"
a["A1"], a["B1"] = "Name", "Note"
a["A2"] = CellRichText("The ", TextBlock(InlineFont(b=True), "bold"), " tide")
a["B2"] = "two\nlines"
a["D9"] = "far away"
w.save("rich.xlsx")
case("rich.xlsx", "formatted text, line breaks, a far cell", ["Name: The bold tide | Note: two lines", "far away"],
     at={"far away": "sheet=Rich"})

w = openpyxl.Workbook()
a = w.active
a.title = "Two"
for row in [["Berth", "Fee"], ["A", 30], [], ["Crane", "Load"], ["North", 80]]:
    a.append(row)
w.save("two.xlsx")
case("two.xlsx", "two tables on a sheet", ["Berth: A | Fee: 30", "Crane: North | Load: 80"], at={"North": "sheet=Two"})

w = openpyxl.Workbook()
a = w.active
a.title = "Shown"
a.append(["What", "Value"])
a.append(["share", 0.15])
a["B2"].number_format = "0%"
a.append(["price", 1234.5])
a["B3"].number_format = '#,##0.00 "€"'
a.append(["error", "#DIV/0!"])
w.save("shown.xlsx")
case("shown.xlsx", "percent and currency as shown, an error", ["share | Value: 15%", "price | Value: 1,234.50 €", "#DIV/0!"])

w = openpyxl.Workbook()
a = w.active
a.title = "It's 価格 & more"
a.sheet_view.rightToLeft = True
a.append(["품목", "مرفأ"])
a.append(["배", "٣"])
w.save("names.xlsx")
case("names.xlsx", "a sheet's odd name, right to left", ["품목: 배 | مرفأ: ٣"], heads={"배": "names › It's 価格 & more"},
     at={"배": "sheet=It's 価格 & more"})

# OpenDocument
o = opendocument.OpenDocumentText()
o.text.addElement(text.H(outlinelevel=1, text="Notes"))
p = text.P(text="The tide turns")
n = text.Note(noteclass="footnote", id="f1")
n.addElement(text.NoteCitation(text="1"))
b = text.NoteBody()
b.addElement(text.P(text="Twice a day."))
n.addElement(b)
p.addElement(n)
p.addText(" at noon.")
o.text.addElement(p)
o.save("note.odt")
case("note.odt", "a footnote in a sentence", ["The tide turns at noon.", "Twice a day."], heads={"Twice a day.": "Notes"})

o = opendocument.OpenDocumentText()
outer = text.List()
item = text.ListItem()
item.addElement(text.P(text="Boats"))
below = text.List()
for word in ["Dinghy", "Ketch"]:
    i = text.ListItem()
    i.addElement(text.P(text=word))
    below.addElement(i)
item.addElement(below)
outer.addElement(item)
o.text.addElement(outer)
o.save("lists.odt")
case("lists.odt", "lists in a list", ["- Boats", "- Dinghy", "- Ketch"])

o = opendocument.OpenDocumentText()
p = text.P(text="Beside it.")
f = draw.Frame(width="5cm", height="2cm", anchortype="paragraph")
x = draw.TextBox()
x.addElement(text.P(text="In a frame."))
f.addElement(x)
p.addElement(f)
o.text.addElement(p)
o.save("frame.odt")
case("frame.odt", "a text box", ["Beside it.", "In a frame."], ["it.In"])

o = opendocument.OpenDocumentText()
t = table.Table(name="T")
for row in [["Water", None], ["High", "Low"], ["13.2 m", "0.9 m"]]:
    r = table.TableRow()
    for word in row:
        if word is None:
            r.addElement(table.CoveredTableCell())
            continue
        c = table.TableCell(numbercolumnsspanned=2 if word == "Water" else 1)
        c.addElement(text.P(text=word))
        r.addElement(c)
    t.addElement(r)
o.text.addElement(t)
o.save("merged.odt")
case("merged.odt", "merged cells", ["Water", "High | Low", "13.2 m | 0.9 m"])

o = opendocument.OpenDocumentText()
o.text.addElement(text.H(outlinelevel=1, text="Port"))
o.text.addElement(text.H(outlinelevel=3, text="Pier"))
o.text.addElement(text.P(text="A level is missing."))
o.text.addElement(text.H(outlinelevel=1, text=""))
o.text.addElement(text.P(text="Below an empty heading."))
o.save("levels.odt")
case("levels.odt", "a level left out, an empty heading", ["A level is missing.", "Below an empty heading."],
     heads={"A level is missing.": "Port › Pier"})


# Books
def book(file, chapters, spine=None):
    e = epub.EpubBook()
    e.set_identifier("id")
    e.set_title("Book")
    e.set_language("en")
    items = []
    for n, body in enumerate(chapters):
        c = epub.EpubHtml(title=f"c{n}", file_name=f"c{n}.xhtml")
        c.content = body
        e.add_item(c)
        items.append(c)
    e.spine = [items[i] for i in spine or range(len(items))]
    e.add_item(epub.EpubNcx())
    epub.write_epub(file, e)


book("order.epub", ["<h1>Last</h1><p>The end.</p>", "<h1>First</h1><p>The beginning.</p>"], [1, 0])
case("order.epub", "chapters in another order than files", ["The beginning.", "The end."], heads={"The end.": "Last"})
book("ruby.epub", ["<h1>灯台</h1><p><ruby>灯台<rt>とうだい</rt></ruby>が光る。</p>"])
case("ruby.epub", "ruby", ["灯台が光る。"], ["灯台とうだい"], heads={"が光る": "灯台"})
book("split.epub", ["<h1>Long</h1><p>First part.</p>", "<p>Second part, in a file of its own.</p>"])
case("split.epub", "a chapter in two files", ["First part.", "Second part"], heads={"Second part": "Long"})
book("aside.epub", ['<h1>Sea</h1><p>Deep<a href="#n">1</a> water.</p><aside id="n"><p>Note on depth.</p></aside>'])
case("aside.epub", "a note", ["Deep", "water.", "Note on depth."], heads={"Note on depth.": "Sea"})
book("image.epub", ['<p><img src="x.png" alt="A chart of the bay"/></p>', "<h2>After</h2><p>The chart.</p>"])
case("image.epub", "a chapter that is a picture", ["The chart."], heads={"The chart.": "After"})

# PDF
pdfmetrics.registerFont(TTFont("D", "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"))


def pdf(file, *pages, size=9):
    c = canvas.Canvas(file, pagesize=A5, invariant=1)
    for lines in pages:
        for x, y, line in lines:
            c.setFont("D", size)
            c.drawString(x, y, line)
        c.showPage()
    c.save()


left = [(40, 540 - 12 * i, f"Left column, line {i} of") for i in range(8)]
right = [(230, 540 - 12 * i, f"right column, line {i} of") for i in range(8)]
pdf("columns.pdf", [x for pair in zip(left, right) for x in pair])
case("columns.pdf", "two columns, drawn line by line", ["line 0 of Left column, line 1", "line 6 of Left column, line 7",
     "right column, line 0 of right column, line 1"], at={"right column, line 1": "page=1"})
pdf("hyphen.pdf", [(40, 500, "The harbour mas\u00ad"), (40, 488, "ter opens the lock.")])
case("hyphen.pdf", "a word parted by a soft hyphen", ["The harbour master opens the lock."], at={"opens": "page=1"})
pdf("empty.pdf", [(40, 500, "Page one.")], [], [], [(40, 500, "Page four.")])
case("empty.pdf", "empty pages", ["Page one.", "Page four."], at={"Page four.": "page=4"})
pdf("ligature.pdf", [(40, 500, "The of\ufb01ce \ufb02oods, e\ufb03cient."), (40, 460, "Zürich, Łódź, Ἀθῆναι, Москва.")])
case("ligature.pdf", "ligatures, accents, three scripts", ["The office floods, efficient.", "Zürich, Łódź, Ἀθῆναι, Москва."],
     at={"office": "page=1"})
pdf("xref.pdf", [(40, 500, "The table of places is wrong.")])
raw = open("xref.pdf", "rb").read()
at = raw.rindex(b"startxref")
open("xref.pdf", "wb").write(raw[:at] + b"startxref\n7\n%%EOF\n")
case("xref.pdf", "a wrong xref", ["The table of places is wrong."], at={"wrong": "page=1"})

# Messages
m = email.message.EmailMessage()
m["Subject"] = "Fahrplan für Grünau – größer"
m["From"] = "Jörg Müller <j@example.org>"
m.set_content("Der Fährplan.\n")
m.add_alternative("<p>HTML</p>", subtype="html")
inner = email.message.EmailMessage()
inner["Subject"] = "The one below"
inner.set_content("Forwarded words.\n")
m.add_attachment(inner)
open("nested.eml", "wb").write(bytes(m))
case("nested.eml", "a message in a message", ["Der Fährplan.", "Forwarded words."], ["HTML"],
     heads={"Der Fährplan.": "Fahrplan für Grünau – größer"})
m = email.message.EmailMessage()
m["Subject"] = "Base64"
m.set_content("Fünf Euro (€).\n", charset="iso-8859-15", cte="base64")
open("base64.eml", "wb").write(bytes(m))
case("base64.eml", "base64 in ISO 8859-15", ["Fünf Euro (€)."], heads={"Fünf": "Base64"})
long = "A long line that is folded by quoted-printable, with an ü and an = sign, again and again. " * 3
m = email.message.EmailMessage()
m["Subject"] = "A subject that is so long that it has to be folded over several lines of the header, with ä, ö and ü in it"
m.set_content(long + "\n", cte="quoted-printable")
open("folded.eml", "wb").write(bytes(m))
case("folded.eml", "folded header, quoted-printable", [long.strip()[:200]],
     heads={"A long line": "A subject that is so long that it has to be folded over several lines of the header, with ä, ö and ü in it"})
m = email.message.EmailMessage()
m["Subject"] = "List"
m.set_content("<html><body><h2>News</h2><ul><li>One</li><li>Two</li></ul></body></html>", subtype="html")
m.add_attachment(b"x", maintype="application", subtype="pdf", filename="Größe.pdf")
open("html.eml", "wb").write(bytes(m))
case("html.eml", "HTML alone, a file's name in RFC 2231", ["- One", "- Two", "Größe.pdf"], heads={"- Two": "List › News"})
open("bare.eml", "wb").write("Subject: Bare\r\n\r\nGrüße ohne Kopf.\r\n".encode("windows-1252"))
case("bare.eml", "no MIME, Windows-1252", ["Grüße ohne Kopf."], heads={"ohne": "Bare"})


def plain(file, what, content, *a, **k):
    open(file, "wb").write(content if isinstance(content, bytes) else content.encode())
    case(file, what, *a, **k)


# Tables of text
plain("semicolon.csv", "semicolons, decimal commas", "Ort;Höhe\nBristol;13,2\nHull;6,8\n", ["Ort: Bristol | Höhe: 13,2", "Ort: Hull | Höhe: 6,8"], at={"Hull": "3"})
plain("newline.csv", "a line break in quotes", 'Name,Note\nAda,"two\nlines"\nBob,one\n', ["Name: Ada | Note: two lines", "Name: Bob | Note: one"], at={"Bob": "4"})
plain("ragged.csv", "ragged rows, empty ones", "a,b,c\n1\n\n2,x,y,too much\n3,,z\n", ["a: 1", "a: 2 | b: x | c: y | too much", "a: 3 | c: z"], at={"too much": "4"})
plain("bom.csv", "a byte order mark, CRLF, quotes in quotes", '\ufeffName,Says\r\nAda,"""Yes"", she said"\r\n', ['Name: Ada | Says: "Yes", she said'], ["\ufeff"], at={"Ada": "2"})
plain("utf16.tsv", "UTF-16 with tabs", "Name\tOrt\nÄda\tŁódź\n".encode("utf-16"), ["Name: Äda | Ort: Łódź"], at={"Äda": "2"})
# HTML
plain("nested.html", "a table in a table", "<h1>T</h1>\n<table><tr><td>a</td><td><table><tr><td>b</td><td>c</td></tr></table></td></tr>\n<tr><td>d</td><td>e</td></tr></table>", ["a", "b | c", "d | e"], heads={"d | e": "T"}, at={"d | e": "3"})
plain("main.html", "navigation, scripts, templates", "<nav>Home</nav><script>var x='no'</script>\n<template>no</template><main><h2>Sea</h2>\n<p>The sea.</p></main>", ["The sea."], ["Home", "var x", "no<"], heads={"The sea.": "Sea"}, at={"The sea.": "3"})
plain("open.html", "tags that are not closed", "<h1>A<p>One<p>Two\n<ul><li>x<li>y</ul>\n<table><tr><td>1<td>2<tr><td>3<td>4", ["One", "Two", "- x", "- y", "1 | 2", "3 | 4"], heads={"Two": "A"}, at={"3 | 4": "3"})
plain("pre.html", "code and entities", "<pre>\nif a &lt; b {\n\tx()\n}\n</pre><p>Fish &amp; chips &copy; &#x1F41F;</p>", ["if a < b {\n\tx()\n}", "Fish & chips © 🐟"], at={"x()": "3"})
plain("ruby.html", "ruby, right to left", '<p><ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rt>じ</rt></ruby>です。</p>\n<p dir="rtl">שלום <b>עולם</b></p>', ["漢字です。", "שלום עולם"], ["漢かん", "漢(かん)"], at={"שלום": "2"})
# Markdown
plain("setext.md", "underlined headings, lists in lists", "Sea\n===\n\n- a\n  - b\n    1. c\n\nShore\n-----\n\nSand.\n", ["- a", "- b", "c", "Sand."], heads={"Sand.": "Sea › Shore"}, at={"Sand.": "11"})
plain("pipes.md", "bars in the cells of a table", "| a | b |\n|---|---|\n| x \\| y | `p|q` |\n", ["x | y"], ["\\|"], at={"x | y": "3"})
plain("fence.md", "headings in code", "# Real\n\n~~~sh\n# not a heading\n~~~\n\n    # nor this\n\nText.\n", ["# not a heading", "# nor this", "Text."], heads={"Text.": "Real", "# not a heading": "Real"}, at={"Text.": "9"})
plain("front.md", "front matter, a comment, HTML", "---\ntitle: Log\nauthor: Ada\n---\n<!-- hidden -->\n# Day\n\nA <b>calm</b> day.\n", ["A calm day."], ["hidden", "<b>"], heads={"calm": "Log › Day"}, at={"calm": "8"})
plain("links.md", "links by reference, emphasis in words", "See [the *chart*][1] and <https://example.org>.\n\nun*frigging*believable\n\n[1]: https://example.org/chart\n", ["See the chart and https://example.org.", "unfriggingbelievable"], ["[1]"], at={"unfrigging": "3"})
# Plain text
plain("feeds.txt", "form feeds, CRLF", "Page one.\r\n\fPage two.\r\n\r\nThe end.\r\n", ["Page one.", "Page two.", "The end."], at={"The end.": "4"})
plain("line.txt", "one line of 200 kB", "The tide turns. " * 12500, ["The tide turns. The tide turns."], at={"The tide turns.": "1"})
plain("rtl.txt", "right to left", "הספינה עוגנת בנמל.\n\nالسفينة في الميناء.\n", ["הספינה עוגנת בנמל.", "السفينة في الميناء."], at={"السفينة": "3"})
plain("cjk.txt", "no spaces", "灯塔的看守人每天早晨都把风力和浪高记在日志里。" * 30 + "\n末尾。\n", ["灯塔的看守人", "末尾。"], at={"末尾": "2"})
plain("broken.txt", "NULs and invalid bytes", "Schöne Grüße.\n".encode() + b"a\x00b \xff c, und \xc3\xbc.\n", ["Schöne Grüße.", "ab", "c, und ü."], ["\x00"], at={"und ü": "2"})
# JSON lines
plain("escapes.jsonl", "escapes", '{"id":"a","text":"Gr\\u00fc\\u00dfe \\ud83d\\ude00 \\"x\\"\\n\\nNext."}\n', ['Grüße 😀 "x"', "Next."], at={"Next.": "1"})
plain("bom.jsonl", "a mark, CRLF, empty lines", '\ufeff{"id":"a","text":"One."}\r\n\r\n{"id":"b","text":"Two."}\r\n', ["One.", "Two."], at={"Two.": "3"})
plain("title.jsonl", "title, topic, number as id", '{"id":7,"title":"Sea","topic":"water","text":"Deep."}\n', ["Deep."], heads={"Deep.": "Sea"}, at={"Deep.": "1"})
plain("bad.jsonl", "a bad line between two", '{"text":"One."}\n{"text":\n{"text":"Three."}\n', ["One.", "Three."], at={"Three.": "3"})
plain("deep.jsonl", "fields of other kinds", '{"x":{"text":"no"},"list":[{"text":"no"}],"text":"Yes.","id":"d"}\n', ["Yes."], ["no"], at={"Yes.": "1"})

json.dump(cases, open("expected.json", "w"), ensure_ascii=False, indent=1)
