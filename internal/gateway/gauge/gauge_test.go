package gauge

import (
	"strings"
	"testing"
)

const said = `# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a } b"} 3.0
vllm:num_requests_waiting{engine="1",model_name="x"} 2.0 1700000000000
vllm:num_requests_waiting_by_reason{reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:other 5
`

// TestRead: the named gauges of all parts of a replica, and of nothing else.
func TestRead(t *testing.T) {
	waiting, held := []string{"vllm:num_requests_waiting"}, []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}
	for text, want := range map[string]Load{
		said: {5, 0.75}, "vllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 7\n": {0, 1}, "vllm:num_requests_waiting NaN\nvllm:num_requests_waiting 1\nvllm:gpu_cache_usage_perc -1": {1, 0},
	} {
		if got, ok := Read(strings.NewReader(text), waiting, held); !ok || got != want {
			t.Errorf("%.60q: %+v %v, want %+v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "vllm:num_requests_waiting", "vllm:num_requests_waiting{", "vllm:num_requests_waiting{a=\"}\"", "vllm:num_requests_waiting +Inf", "vllm:num_requests_waiting 1\n" + strings.Repeat("x", maxLine+1)} {
		if got, ok := Read(strings.NewReader(text), waiting, held); ok {
			t.Errorf("%.60q: %+v", text, got)
		}
	}
}

// FuzzRead: whatever a replica writes, reading ends, and what is read is a number.
func FuzzRead(f *testing.F) {
	f.Add(said)
	f.Fuzz(func(t *testing.T, text string) {
		if l, _ := Read(strings.NewReader(text), []string{"a"}, []string{"b"}); !(l.Waiting >= 0) || !(l.Held >= 0 && l.Held <= 1) {
			t.Errorf("%+v", l)
		}
	})
}
