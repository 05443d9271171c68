package dataset

import (
	"regexp"
	"strings"
)

// name is a name as English writes it: words with capital letters.
var name = regexp.MustCompile(`\b[A-Z][\w.'-]*(?: (?:of |the )?[A-Z][\w.'-]*)*`)

// FollowUp returns the second question as one that cannot be understood without the first: a name that both have
// becomes a pronoun. Where they have none, ok is false.
func FollowUp(first, second string) (text string, ok bool) {
	for _, n := range name.FindAllString(second, -1) {
		n = strings.TrimSuffix(n, "'s")
		if strings.HasPrefix(second, n) || !strings.Contains(first, n) {
			continue
		}
		return strings.NewReplacer("the "+n+"'s", "its", n+"'s", "its", "the "+n, "it", n, "it").Replace(second), true
	}
	return "", false
}

// after returns a question with another one, and its first answer, before it.
func (q Query) after(before Query) Query {
	t := Turn{User: before.Text}
	if len(before.Answers) > 0 {
		t.Assistant = before.Answers[0]
	}
	q.History = []Turn{t}
	return q
}

// FollowUps makes questions of conversations of answerable questions. A question follows the one before it about the
// same context, if FollowUp can make it depend on that one.
func FollowUps(questions []Query) (all []Query) {
	last := map[string]Query{}
	for _, q := range questions {
		if !q.CanAnswer() {
			continue
		}
		if before, ok := last[q.ContextID]; ok {
			if text, ok := FollowUp(before.Text, q.Text); ok {
				follow := q.after(before)
				follow.Text, follow.ID = text, "follow-up "+q.ID
				all = append(all, follow)
			}
		}
		last[q.ContextID] = q
	}
	return all
}

// Changes puts a question about another topic before each question, which stays as it is. Questions for which there is
// none are left out.
func Changes(questions, before []Query) (all []Query) {
	n := len(before)
	for i, q := range questions {
		if n == 0 {
			break
		}
		if b := before[(i+n/2)%n]; b.Topic != q.Topic && b.ID != q.ID {
			change := q.after(b)
			change.ID = "change " + q.ID
			all = append(all, change)
		}
	}
	return all
}
