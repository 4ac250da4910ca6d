package pace

import "github.com/fermi-cluster/fermi/internal/link/linkpb"

// Pace is what the ranks of a launcher did in a generation, over the steps whose time is known. All are
// sums over its ranks.
type Pace struct {
	Steps   int64
	Seconds float64 // of these steps
	Samples float64
	Tokens  float64
	Flops   float64
	Waited  float64 // seconds in which a rank waited for data
	Scale   float64 // no sum: the newest loss scale; 0: none
	Skipped int64   // nor this: steps left out for it since the training began, of the rank with the most
	Course  Course  // nor this: of all its steps
}

// Sane refuses what no sum can be; NaN too.
func (p Pace) Sane() bool {
	const most = 1e30
	for _, v := range []float64{float64(p.Steps), p.Seconds, p.Samples, p.Tokens, p.Flops, p.Waited, p.Scale, float64(p.Skipped)} {
		if !(v >= 0 && v <= most) {
			return false
		}
	}
	return true
}

// Message is the pace on the wire; the course goes beside it.
func (p Pace) Message() *linkpb.Pace {
	if p.Steps == 0 {
		return nil
	}
	return &linkpb.Pace{Steps: p.Steps, Seconds: p.Seconds, Samples: p.Samples, Tokens: p.Tokens, Flops: p.Flops, Waited: p.Waited, Scale: p.Scale, Skipped: p.Skipped}
}

// Of reads it.
func Of(r *linkpb.Ranks) Pace {
	m := r.GetPace()
	return Pace{
		Course: courseOf(r.GetCourse()), Steps: m.GetSteps(), Seconds: m.GetSeconds(), Samples: m.GetSamples(), Tokens: m.GetTokens(), Flops: m.GetFlops(), Waited: m.GetWaited(), Scale: m.GetScale(), Skipped: m.GetSkipped(),
	}
}
