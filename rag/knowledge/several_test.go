package knowledge

import "testing"

func TestAsksSeveral(t *testing.T) {
	for question, want := range map[string]bool{
		"Which whales feed on krill?":                   false,
		"Salt and pepper?":                              false,
		"Which whales feed on krill and plankton?":      false,
		"Which whales feed on krill? Who built Rome?":   true,
		"Which whales feed on krill and who built Rome": true,
		"Welche Wale fressen Krill; wer baute Rom?":     true,
		"and or and or":                                 false, "": false, "  ": false, "und": false, "??": false,
	} {
		if got := asksSeveral(question); got != want {
			t.Errorf("%q: %v", question, got)
		}
	}
}
