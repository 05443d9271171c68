package number

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// when1900 returns Excel's serial number as a date or a time. A date with day, month and year in digits, whose order
// depends on the country, is in ISO 8601.
func (s *formatSection) when1900(x float64, from1904 bool) string {
	sign := ""
	if x < 0 {
		x, sign = -x, "-"
	}
	at, day := momentOf(x, from1904, s.unit())
	var kinds [3]bool // of a date in digits: year, month, day
	named := false
	for _, p := range s.parts {
		if p.literal {
			continue
		}
		switch {
		case p.text[0] == 'y':
			kinds[0] = true
		case p.text[0] == 'm':
			kinds[1], named = true, named || len(p.text) > 2
		case p.text[0] == 'd':
			kinds[2], named = true, named || len(p.text) > 2
		}
	}
	iso := kinds == [3]bool{true, true, true} && !named
	half := slices.ContainsFunc(s.parts, func(p formatPart) bool { return !p.literal && p.text == "AM/PM" })
	var out strings.Builder
	if iso {
		out.WriteString(day)
	}
	began := !iso
	for i, p := range s.parts {
		switch {
		case p.literal:
			if began {
				out.WriteString(p.text)
			}
		case iso && strings.Contains("ymd", p.text[:1]):
		default:
			if !began {
				out.WriteByte(' ')
			}
			began = true
			out.WriteString(s.moment(i, x, at, half))
		}
	}
	if iso {
		return sign + strings.TrimRight(out.String(), " /.-,")
	}
	return sign + out.String()
}

// unit returns the unit that times are rounded to: the fraction of a second that the format shows, or a second.
func (s *formatSection) unit() time.Duration {
	unit, point := time.Second, false
	for _, p := range s.parts {
		if !p.literal && p.text == "." {
			point = true
		} else if point && p.text == "0" && unit > time.Millisecond {
			unit /= 10
		}
	}
	return unit
}

// momentOf returns the time of a serial number, rounded, and its day in ISO 8601. Excel's day 60 is 29 February 1900,
// which did not exist, so the days before it are counted from a different origin.
func momentOf(x float64, from1904 bool, unit time.Duration) (time.Time, string) {
	zero := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	switch {
	case from1904:
		zero = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	case x < 60:
		zero = zero.AddDate(0, 0, 1)
	}
	days, part := math.Modf(x)
	at := zero.AddDate(0, 0, int(days)).Add(time.Duration(math.Round(part*86400*float64(time.Second/unit))) * unit)
	switch day := at.Format(time.DateOnly); {
	case !from1904 && days == 0 && at.Day() == 31:
		return at, "1900-01-00"
	case !from1904 && days == 60 && at.Day() == 28:
		return at, "1900-02-29"
	default:
		return at, day
	}
}

// moment returns a part of a date or time.
func (s *formatSection) moment(i int, x float64, at time.Time, half bool) string {
	hour := at.Hour()
	if half {
		hour = (hour + 11) % 12
		hour++
	}
	p := s.parts[i].text
	switch seconds := math.Round(x * 86400); strings.Trim(p, "[]")[0] {
	case 'y':
		if len(p) < 3 {
			return at.Format("06")
		}
		return at.Format("2006")
	case 'm':
		switch {
		case p[0] == '[':
			return fmt.Sprintf("%0*.0f", len(p)-2, math.Floor(seconds/60))
		case len(p) > 5:
			return at.Format("January")
		case len(p) == 5:
			return at.Format("January")[:1]
		}
		return at.Format([]string{"1", "01", "Jan", "January"}[len(p)-1])
	case 'M':
		return at.Format([]string{"4", "04"}[min(len(p), 2)-1])
	case 'd':
		return at.Format([]string{"2", "02", "Mon", "Monday"}[min(len(p), 4)-1])
	case 'h':
		if p[0] == '[' {
			return fmt.Sprintf("%0*.0f", len(p)-2, math.Floor(seconds/3600))
		}
		return fmt.Sprintf("%0*d", min(len(p), 2), hour)
	case 's':
		if p[0] == '[' {
			return fmt.Sprintf("%0*.0f", len(p)-2, seconds)
		}
		return at.Format([]string{"5", "05"}[min(len(p), 2)-1])
	case 'A':
		return at.Format("PM")
	case '0':
		tenths, behind := at.Nanosecond()/int(time.Millisecond), 0
		for j := i; j > 0 && s.parts[j-1].text == "0"; j-- {
			behind++
		}
		return fmt.Sprintf("%03d", tenths)[min(behind, 2) : min(behind, 2)+1]
	case '.':
		return "."
	}
	return ""
}
