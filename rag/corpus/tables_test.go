package corpus

import (
	"context"
	"strings"
	"testing"
)

// textOf is the text of the document that a file of a name and a content becomes, with its headings on lines of
// their own.
func textOf(t *testing.T, name, content string) string {
	t.Helper()
	docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), name, content))
	if len(docs) != 1 || len(skips) > 0 {
		t.Fatalf("%s: %d documents, skipped %v", name, len(docs), skips)
	}
	return docs[0].Text
}

// TestNamesOfColumns: years and other numbers that count columns are names, and so are names that are there twice; a row
// of data is none.
func TestNamesOfColumns(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"corner", ",2019,2020\nNorth,5,7\nSouth,,9\n", "North | 2019: 5 | 2020: 7\nSouth | 2020: 9"},
		{"gap", "Region,2019,2020,2021\nNorth,5,,7\nSouth,,,9\n",
			"Region: North | 2019: 5 | 2021: 7\nRegion: South | 2021: 9"},
		{"falling", "Land,2021,2015,2010\nChad,1,2,3\n", "Land: Chad | 2021: 1 | 2015: 2 | 2010: 3"},
		{"sizes", "Shoe,36,37,38\nStock,4,,2\n", "Shoe: Stock | 36: 4 | 38: 2"},
		{"only years", "2019,2020\n5,7\n", "2019: 5 | 2020: 7"},
		{"twice", "id,phone,phone\n1,0301,0302\n2,,0402\n", "id: 1 | phone: 0301 | phone (2): 0302\nid: 2 | phone (2): 0402"},
		{"lives", "Ada,1815,1852\nCarl,1777,1855\n", "Ada | 1815 | 1852\nCarl | 1777 | 1855"},
		{"counts", "Ada,1,2,3\nCarl,4,5,6\n", "Ada | 1 | 2 | 3\nCarl | 4 | 5 | 6"},
		{"numbers", "1,2,3\n4,,6\n", "1 | 2 | 3\n4 |  | 6"},
		{"answers", "yes,yes,no\nno,,yes\n", "yes | yes | no\nno |  | yes"},
		{"first is empty", "1,2,x\n,,6\n", "1 | 2 | x\n| |  | 6"},
		{"separator", "sep=;\nid;town;price\n1;Arles;3,50\n", "id: 1 | town: Arles | price: 3,50"},
		{"separator in quotes", "\"sep=^\"\r\nid^town\r\n1^Arles\r\n", "id: 1 | town: Arles"},
		{"separators", "sep=size\n4\n", "sep=size: 4"},
		{"carriage returns", "id,name\r1,alpha\r2,beta\r", "id: 1 | name: alpha\nid: 2 | name: beta"},
	} {
		if got := textOf(t, c.name+".csv", c.content); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestPlacesOfRows: the lines of a row are found although most words of its text are the names of its columns, and where
// lines end in CR alone; not in a file that has changed.
func TestPlacesOfRows(t *testing.T) {
	for name, content := range map[string]string{
		"wind.csv": "precipitation,temperature,wind\n0.1,12.8,4\n10.9,10.6,5\n0.8,11.7,2\n",
		"cr.csv":   "precipitation,temperature,wind\r0.1,12.8,4\r10.9,10.6,5\r0.8,11.7,2\r",
	} {
		path := write(t, t.TempDir(), name, content)
		docs, _ := load(t, LoadOptions{}, path)
		chunks, err := Split(docs[0], ChunkOptions{Size: 26, Count: countTokens})
		if err != nil || len(chunks) != 3 {
			t.Fatalf("%d chunks, %v", len(chunks), err)
		}
		for i, c := range chunks {
			if from, to := Lines(context.Background(), path, c.Start, c.End, c.Text); from != i+2 || to != i+2 {
				t.Errorf("%s: row %d is said to be at lines %d to %d", name, i, from, to)
			}
			if !strings.HasPrefix(c.EmbedText(), strings.TrimSuffix(name, ".csv")+"\n") {
				t.Errorf("%q lacks the name of its file", c.EmbedText())
			}
		}
		write(t, "", path, strings.Replace(content, "10.9,10.6,5", "33.3,44.4,7", 1))
		if from, _ := Lines(context.Background(), path, chunks[1].Start, chunks[1].End, chunks[1].Text); from != 0 {
			t.Errorf("%s: a row that has changed is found at line %d", name, from)
		}
	}
}
