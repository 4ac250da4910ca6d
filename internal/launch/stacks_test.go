package launch

import "testing"

// TestWaitsInAStack: where a rank is, by the innermost frames of what it printed.
func TestWaitsInAStack(t *testing.T) {
	const head = "Current thread 0x00007f0 (most recent call first):\n"
	const ddp = `  File "/usr/lib/python3/dist-packages/torch/autograd/__init__.py", line 197 in backward
  File "/usr/lib/python3/dist-packages/torch/_tensor.py", line 487 in backward
  File "/code/train.py", line 170 in main
`
	for name, c := range map[string]struct {
		stack                string
		collective, backward bool
	}{
		"DDP's gradients":      {head + ddp, false, true},
		"PyTorch 2":            {head + `  File "/x/torch/autograd/graph.py", line 825 in _engine_run_backward` + "\n" + ddp, false, true},
		"a function of theirs": {head + `  File "/code/train.py", line 9 in backward` + "\n" + ddp, false, false},
		"a collective":         {head + `  File "/x/torch/distributed/distributed_c10d.py", line 1404 in broadcast` + "\n", true, false},
		"asleep":               {head + `  File "/code/train.py", line 9 in asleep` + "\n", false, false},
		"nothing":              {"", false, false},
	} {
		if x, y := collective.MatchString(c.stack), backward.MatchString(c.stack); x != c.collective || y != c.backward {
			t.Errorf("%s: collective %v, backward %v", name, x, y)
		}
	}
}
