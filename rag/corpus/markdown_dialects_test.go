package corpus

import (
	"strings"
	"testing"
)

// TestMarkdownDialects: what programs add to Markdown is read as they show it.
func TestMarkdownDialects(t *testing.T) {
	for _, x := range []struct{ what, name, source, want string }{
		{"definitions", "a.md", "Ebb\n: The tide goes *out*.\n: It is low then.\n\nNeap\n\n:   A weak tide.\n\n    At half moon.\n",
			"Ebb: The tide goes out.\nIt is low then.\nNeap: A weak tide.\n\nAt half moon."},
		{"footnotes", "a.md", "It rises.[^1] It falls.[^fall]\nNone[^2].\n\n[^1]: By 3 m.\n\n[^fall]: By night.\n\n    Or day.\n\nEnd.",
			"It rises. It falls.\nNone[^2].\n\nBy 3 m.\n\nBy night.\n\nOr day.\n\nEnd."},
		{"attributes of Pandoc", "a.md", "# Tides {#t .x}\n\n[]{#a}The [S-*PLUS*]{.small} of [a link](b.md){width=50%\nrel=\"x\"} and `c`{.r}.",
			"The S-PLUS of a link and c."},
		{"no attributes", "a.md", "A {b} set {#c} and f(x){n=1} or a[i]{}, x[[1]], y[[k]], [[2]], {:a 1} and $x_{i=1}$.",
			"A {b} set {#c} and f(x){n=1} or a[i]{}, x[[1]], y[[k]], [[2]], {:a 1} and $x_{i=1}$."},
		{"fences", "a.md", "Look:\n:::: warning\nDo *not* sail.\n\n::: {.note #n}\nAt all.\n:::\n::::\n:::tip[Hint]\nWait.\n:::\n" +
			":::{note} A title\nIt ebbs.\n:::\n::: figure x.png\nShips.\n:::\n" +
			"/// tip | On *ropes*\nKnot.\n///\n",
			"Look:\n\nDo not sail.\n\nAt all.\n\nHint\n\nWait.\n\nA title\n\nIt ebbs.\n\nShips.\n\nOn ropes\n\nKnot."},
		{"boxes of MkDocs", "a.md", "!!! note \"A *word*\"\n    It ebbs.\n\n    Twice a day.\n\n??? tip\n\n    Wait.\n=== \"Linux\"\n    Sail.\n\nEnd.",
			"A word\n\nIt ebbs.\n\nTwice a day.\n\nWait.\n\nLinux\n\nSail.\n\nEnd."},
		{"directives of MyST", "a.md", "(here)=\n```{warning} Shoals\n:class: x\nKeep {ref}`north <n>` of `a <b>`, `#!py x`.\n```\nSo.\n" +
			":::{note}\n:name: y\nIt ebbs.\n:::\n\n```{code} py\n:linenos:\nx = 1\n```\n",
			"Shoals\n\nKeep north of a <b>, x.\n\nSo.\n\nIt ebbs.\n\nx = 1\n"},
		{"alerts", "a.md", "> [!NOTE]\n> It ebbs.\n\n> [!tip]- Hint\n> Wait.\n\n> [link] stays\n",
			"It ebbs.\n\nHint\nWait.\n\n[link] stays"},
		{"links of wikis", "a.md", "[[Harbour]] and [[Tides#Neap|weak tides]] ![[x.png]]end [[_TOC_]]\n\n[TOC]\n\n[[ref]]\n\n[ref]: x",
			"Harbour and weak tides end\n\n[ref]"},
		{"tags", "a.md", "{{< tabs >}}\nIt *ebbs*.{: .small}\n{{% /tabs %}}\n{: .no_toc }\n{% if x %}Sail.{% endif %} {{ name }}",
			"It ebbs.\nSail. {{ name }}"},
		{"MDX", "a.mdx", "import A from 'a'\nexport const b = {\n}\n\nIt ebbs. {/* why? */}\n\n```js\n\nimport c\n```\n",
			"It ebbs.\n\n\nimport c\n"},
		{"R Markdown", "a.Rmd", "---\ntitle: T\n---\n# Tides\n\n```{r}\nx\n```\n", "x\n"},
		{"contents", "a.md", "# T\n\n## Contents\n\n- [A](#a)\n  1. [B](#b)\n- [C](#c)\n\n## A\n\nIt ebbs.\n\n- [B](#b)\n- [D](d.md)\n- [E](#e) too\n",
			"It ebbs.\n\n- B\n- D\n- E too"},
		{"simple table", "a.md", "  Port     Depth\n-------   ------\nOslo         9 m\nCalais     `7` m\n\nEnd.",
			"Port | Depth\nOslo | 9 m\nCalais | 7 m\n\nEnd."},
		{"simple table without a header", "a.md",
			"------- ------\nOslo       9 m\nCalais     7 m\n------- ------\n\nEnd.",
			"Oslo | 9 m\nCalais | 7 m\n\nEnd."},
		{"table of several lines", "a.md", "-------------------\n Port     How\n          deep\n-------  ----------\nOslo     9 m at low\n" +
			"         *tide*\n\nCalais   7 m\n-------------------\n\nEnd.",
			"Port | How deep\nOslo | 9 m at low tide\nCalais | 7 m\n\nEnd."},
		{"grid", "a.md", "+------+-----+\n| Port | m   |\n+======+:===:+\n| Oslo | 9   |\n| Süd  | -   |\n+------+-----+\n| both two   |\n+------+-----+\nEnd.",
			"Port | m\nOslo Süd | 9 -\nboth two\n\nEnd."},
		{"rules", "a.md", "A\n\n--- ---\n\nB\n\n--------------\n\nC\n\n+---\n\n+--+\n\nTitle\n-----\n\nD",
			"A\n\nB\n\nC\n\n+---\n\n+--+\n\nD"},
	} {
		if got := strings.TrimSpace(readAs(t, x.name, x.source)); got != strings.TrimSpace(x.want) {
			t.Errorf("%s: %q\nwant %q", x.what, got, x.want)
		}
	}
}

// TestWideRules: a rule of a thousand dashes is no nest of lists, whose text would be read as it is.
func TestWideRules(t *testing.T) {
	if got := readAs(t, "a.md", "A\n\n"+strings.Repeat("-", 4000)+"\n\n*b*"); got != "A\n\nb" {
		t.Errorf("%q", got)
	}
	if got := readAs(t, "a.md", strings.Repeat("- ", 4000)+"*b*"); !strings.HasSuffix(got, "*b*") {
		t.Errorf("not read as plain text: %.100q", got)
	}
}
