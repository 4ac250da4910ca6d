package sample

import (
	"math"
	"math/rand/v2"
)

// Model is a perceptron with two hidden tanh layers and a logistic output: which of two spirals
// does a point belong to? Weights are row-major, one row per output of the layer.
type Model struct {
	Layers []Layer `json:"layers"`
}

// Layer is y = W·x + b.
type Layer struct {
	In     int       `json:"in"`
	Out    int       `json:"out"`
	Weight []float64 `json:"weight"`
	Bias   []float64 `json:"bias"`
}

// inputs is x, y of a point.
const inputs = 2

// NewModel draws the weights (Xavier) from the source, always in the same order.
func NewModel(hidden int, rng *rand.Rand) *Model {
	m := &Model{}
	for _, shape := range [][2]int{{inputs, hidden}, {hidden, hidden}, {hidden, 1}} {
		l := newLayer(shape[0], shape[1])
		scale := math.Sqrt(6 / float64(shape[0]+shape[1]))
		for i := range l.Weight {
			l.Weight[i] = (2*rng.Float64() - 1) * scale
		}
		m.Layers = append(m.Layers, l)
	}
	return m
}

func newLayer(in, out int) Layer {
	return Layer{In: in, Out: out, Weight: make([]float64, in*out), Bias: make([]float64, out)}
}

// zeros has the shape of m and no values: for gradients and moments.
func (m *Model) zeros() *Model {
	z := &Model{}
	for _, l := range m.Layers {
		z.Layers = append(z.Layers, newLayer(l.In, l.Out))
	}
	return z
}

func (m *Model) clear() {
	for _, l := range m.Layers {
		clear(l.Weight)
		clear(l.Bias)
	}
}

// parameters visits all numbers of the model in a fixed order, slice by slice.
func (m *Model) parameters() [][]float64 {
	var out [][]float64
	for _, l := range m.Layers {
		out = append(out, l.Weight, l.Bias)
	}
	return out
}

// scratch holds the activations of one forward pass; a[0] is the input.
type scratch struct {
	a     [][]float64
	delta [][]float64
}

func (m *Model) scratch() *scratch {
	s := &scratch{a: [][]float64{make([]float64, inputs)}, delta: [][]float64{nil}}
	for _, l := range m.Layers {
		s.a = append(s.a, make([]float64, l.Out))
		s.delta = append(s.delta, make([]float64, l.Out))
	}
	return s
}

// forward is the logit of one point. The explicit conversions keep the compiler from fusing
// multiply and add, which would give other bits on other processors.
func (m *Model) forward(s *scratch, p Point) float64 {
	s.a[0][0], s.a[0][1] = p.X, p.Y
	last := len(m.Layers) - 1
	for i, l := range m.Layers {
		in, out := s.a[i], s.a[i+1]
		for o := range out {
			sum := l.Bias[o]
			row := l.Weight[o*l.In : (o+1)*l.In]
			for j, w := range row {
				sum += float64(w * in[j])
			}
			if i < last {
				sum = math.Tanh(sum)
			}
			out[o] = sum
		}
	}
	return s.a[last+1][0]
}

// backward adds the gradient of the loss of the last forward pass to grad; slope is dLoss/dLogit.
func (m *Model) backward(s *scratch, grad *Model, slope float64) {
	last := len(m.Layers) - 1
	s.delta[last+1][0] = slope
	for i := last; i >= 0; i-- {
		l, g := m.Layers[i], grad.Layers[i]
		in, delta := s.a[i], s.delta[i+1]
		for o, d := range delta {
			g.Bias[o] += d
			row := g.Weight[o*l.In : (o+1)*l.In]
			for j := range row {
				row[j] += float64(d * in[j])
			}
		}
		if i == 0 {
			return
		}
		below := s.delta[i]
		for j := range below {
			sum := 0.0
			for o, d := range delta {
				sum += float64(d * l.Weight[o*l.In+j])
			}
			below[j] = sum * (1 - float64(in[j]*in[j])) // tanh' = 1 − tanh²
		}
	}
}

// loss is the logistic loss and its slope, safe for large logits.
func loss(logit float64, label float64) (value, slope float64) {
	value = max(logit, 0) - logit*label + math.Log1p(math.Exp(-math.Abs(logit)))
	return value, sigmoid(logit) - label
}

func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}

// batch computes mean loss and accuracy over points and, with grad, the mean gradient.
func (m *Model) batch(s *scratch, points []Point, grad *Model) (meanLoss, accuracy float64) {
	return m.batchOf(s, points, len(points), grad)
}

// batchOf is the part that points have in those means over a batch of size.
func (m *Model) batchOf(s *scratch, points []Point, size int, grad *Model) (meanLoss, accuracy float64) {
	n := float64(size)
	for _, p := range points {
		logit := m.forward(s, p)
		value, slope := loss(logit, p.Label)
		meanLoss += value / n
		if (logit > 0) == (p.Label > 0.5) {
			accuracy += 1 / n
		}
		if grad != nil {
			m.backward(s, grad, slope/n)
		}
	}
	return meanLoss, accuracy
}

// Point is one example: a place and which spiral it is on (0 or 1).
type Point struct{ X, Y, Label float64 }

// spirals draws n points of two interleaved spirals, one turn each, within about [-3, 3]: wide
// enough that tanh bends, which a learning rate of 0.05 needs.
func spirals(n int, rng *rand.Rand) []Point {
	points := make([]Point, n)
	for i := range points {
		label := float64(i % 2)
		t := rng.Float64()
		angle := 2*math.Pi*t + label*math.Pi
		r := 0.1 + 0.9*t
		points[i] = Point{
			X:     3*r*math.Cos(angle) + 0.1*rng.NormFloat64(),
			Y:     3*r*math.Sin(angle) + 0.1*rng.NormFloat64(),
			Label: label,
		}
	}
	return points
}

// adam is the optimizer of the same name.
type adam struct {
	rate   float64
	step   int
	m1, m2 *Model
}

func newAdam(m *Model, rate float64) *adam { return &adam{rate: rate, m1: m.zeros(), m2: m.zeros()} }

func (a *adam) apply(m, grad *Model) {
	const b1, b2, tiny = 0.9, 0.999, 1e-8
	a.step++
	c1, c2 := 1-math.Pow(b1, float64(a.step)), 1-math.Pow(b2, float64(a.step))
	weights, grads, m1, m2 := m.parameters(), grad.parameters(), a.m1.parameters(), a.m2.parameters()
	for i := range weights {
		for j, g := range grads[i] {
			m1[i][j] = float64(b1*m1[i][j]) + float64((1-b1)*g)
			m2[i][j] = float64(b2*m2[i][j]) + float64((1-b2)*float64(g*g))
			weights[i][j] -= a.rate * (m1[i][j] / c1) / (math.Sqrt(m2[i][j]/c2) + tiny)
		}
	}
}
