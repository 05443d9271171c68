package number

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/doubling"
)

// TestNumberFormats: what Excel and LibreOffice show of numbers, dates and times; dates in digits alone are as in
// ISO 8601.
func TestNumberFormats(t *testing.T) {
	for _, c := range []struct {
		code string
		x    float64
		want string
	}{
		{"General", .1 + .2, "0.3"}, {"General", 1234567890123456, "1234567890123456"}, {"General", -1.5, "-1.5"},
		{"General", 6.02214076e23, "6.02214076e+23"}, {"", 12, "12"}, {`General "pcs"`, 7, "7 pcs"},
		{"0", 1234567890123456, "1234567890123456"}, {"0", 4006381333931, "4006381333931"}, {"00000", 501, "00501"},
		{"0", 2.5, "3"}, {"0.00", 1.005, "1.01"}, {"0.0#", 3, "3.0"}, {"0.##", 3, "3"}, {"#.##", .5, ".5"},
		{"#,##0.00 \"EUR\"", 1250.5, "1,250.50 EUR"}, {"[$€-407] #,##0", 1234567, "€ 1,234,567"},
		{"#,##0.00\\ \"€\"", -99, "-99.00 €"}, {"0.0%", .075, "7.5%"}, {"0.0 \"km\"", 3.14, "3.1 km"},
		{"0.0,,\"M\"", 12345678, "12.3M"}, {"#,", 12345, "12"}, {"000-00-0000", 78051120, "078-05-1120"},
		{"(000) 000-0000", 5551234567, "(555) 123-4567"}, {"[<=9999999]###-####;(###) ###-####", 5551234, "555-1234"},
		{"0.00E+00", 12345, "1.23E+04"}, {"##0.0E+0", 12345, "12.3E+3"}, {"0.00E+00", .00012, "1.20E-04"},
		{"0;(0);\"none\"", -5, "(5)"}, {"0;(0);\"none\"", 0, "none"}, {"[Red]-0;0", 4, "-4"}, {"0.0", -.01, "0.0"},
		{`_(* #,##0_);_(* (#,##0);_(* "-"_)`, -1234, "(1,234)"}, {"# ?/?", 1.5, "1.5"}, {"@", 12, "12"},
		{"+0°;-0°", 12, "+12°"}, {"+0°;-0°", -12, "-12°"},
		{"[h]:mm", 1.510416666666667, "36:15"}, {"[hh]:mm:ss", .3125, "07:30:00"}, {"[mm]:ss", 1.0 / 24, "60:00"},
		{"[ss]", 2.0 / 1440, "120"}, {"h:mm AM/PM", .5625, "1:30 PM"}, {"h:mm:ss", .25, "6:00:00"},
		{"mm:ss.0", .5 / 86400, "00:00.5"}, {"h:mm AM/PM", 0, "12:00 AM"},
		{"yyyy-mm-dd", 45382, "2024-03-31"}, {"dd/mm/yy", 45382, "2024-03-31"}, {"m/d/yyyy h:mm", 45383.5625,
			"2024-04-01 13:30"}, {"h:mm d/m/yyyy", 45383.5625, "2024-04-01 13:30"},
		{"d mmm yyyy", 45382, "31 Mar 2024"},
		{"[$-409]dddd, mmmm d", 45382, "Sunday, March 31"}, {"mmm-yy", 45382, "Mar-24"}, {"yyyy", 45382, "2024"},
		{"yyyy-mm-dd", 1, "1900-01-01"}, {"yyyy-mm-dd", 59, "1900-02-28"}, {"yyyy-mm-dd", 60, "1900-02-29"},
		{"yyyy-mm-dd", 61, "1900-03-01"}, {"yyyy-mm-dd", 0, "1900-01-00"}, {"yyyy-mm-dd", -1, "-1"},
		{"yyyy-mm-dd", 45382.999999, "2024-04-01"}, {strings.Repeat("0", 300), 5, "5"},
	} {
		if got := New(c.code).Number(c.x, false); got != c.want {
			t.Errorf("%v in %q is %q, want %q", c.x, c.code, got, c.want)
		}
	}
	if got := New("yyyy-mm-dd").Number(0, true); got != "1904-01-01" {
		t.Error(got)
	}
	if got := New(`0;-0;0;"Dr. "@`).Text("Who"); got != "Dr. Who" {
		t.Error(got)
	}
}

// FuzzNumberFormat: any format shows any number, in a text that is not much longer than the format.
func FuzzNumberFormat(f *testing.F) {
	for _, code := range []string{"0.00", "#,##0;[Red](0)", "[h]:mm:ss.000", "0.0E+0", "yyyy \"a", "[>1]0;@", "?/?",
		"0-0.0"} {
		f.Add(code, 1.5)
	}
	f.Fuzz(func(t *testing.T, code string, x float64) {
		format := New(code)
		for _, text := range []string{format.Number(x, false), format.Number(-x, true), format.Text("a")} {
			if len(text) > 8*len(code)+1000 {
				t.Errorf("%q shows %v in %d bytes", code, x, len(text))
			}
		}
	})
}

// TestNumberFormatsAreLinear: no format makes long texts of short numbers, however long it is.
func TestNumberFormatsAreLinear(t *testing.T) {
	for _, in := range []doubling.Input{doubling.Repeat("0"), doubling.Repeat("[h]"), doubling.Repeat("0;"),
		doubling.Repeat(`"a"0`), doubling.Repeat("0.0E+0"), doubling.Repeat("yyyy")} {
		doubling.Linear(t, in, func(text string) (n int) {
			began := time.Now()
			n = len(New(text).Number(1e300, false)) + len(text)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%v took %v", in, took)
			}
			return n
		})
	}
}
