package gate

import "fmt"

// Shadow is a second policy and threshold over the same score. It has no influence on decisions. Each decision records
// what the shadow would decide, so that a policy can be tried on real questions. The zero value disables it.
type Shadow struct {
	// Policy is in the syntax of ParsePolicy; "" disables the shadow.
	Policy    string  `key:"shadow_policy" doc:"a policy that is tried beside the one in force, such as maximum:p10: it decides nothing, and 'gate --explain' and 'log report' say where it would have decided otherwise"`
	Threshold float64 `key:"shadow_threshold" bounds:"-1000000,1000000" doc:"T of that policy"`
}

// ShadowDecision is the decision that a Shadow would make.
type ShadowDecision struct {
	Policy      string  `json:"policy"`
	PolicyValue float64 `json:"policy_value"`
	Threshold   float64 `json:"threshold"`
	Cutoff      float64 `json:"cutoff"`
	Retrieve    bool    `json:"retrieve"`
}

// Check returns ErrPolicy if the policy does not exist.
func (s Shadow) Check() error {
	if s.Policy == "" {
		return nil
	}
	p, err := ParsePolicy(s.Policy)
	if err == nil && p.promised != nil {
		err = fmt.Errorf("%w: %s promises something of decisions, and a shadow makes none", ErrPolicy, s.Policy)
	}
	if err == nil && !finite(s.Threshold) {
		err = fmt.Errorf("%w: threshold %v", ErrPolicy, s.Threshold)
	}
	return err
}

// WithShadow returns the gate with a shadow beside it: ErrPolicy for an unknown policy, or one of a distribution that
// the calibration does not hold.
func (g *Gate) WithShadow(s Shadow) (*Gate, error) {
	if err := s.Check(); err != nil || s.Policy == "" {
		return g, err
	}
	p, err := ParsePolicy(s.Policy)
	if err != nil {
		return g, err
	}
	values := g.c.lists().of(p)
	if len(values) == 0 {
		return g, fmt.Errorf("%w: shadow %s needs a distribution that this calibration does not hold; calibrate again",
			ErrPolicy, s.Policy)
	}
	n := *g
	value := p.value(g.c.Metric, sorted(values))
	n.shadow = &ShadowDecision{Policy: p.Name, PolicyValue: value, Threshold: s.Threshold,
		Cutoff: cutoff(g.c.Metric, value, s.Threshold)}
	return &n, nil
}

// besides returns the shadow's decision on a score, nil without a shadow.
func (g *Gate) besides(score float64) *ShadowDecision {
	if g.shadow == nil {
		return nil
	}
	d := *g.shadow
	d.Retrieve = g.c.Metric.Better(score, d.Cutoff)
	return &d
}
