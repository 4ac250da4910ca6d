package train

import (
	"encoding/json"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// FuzzFlatRequest: never panics; what is taken is a task.
func FuzzFlatRequest(f *testing.F) {
	f.Add([]byte(`{"taskName":"x","command":["a"]}`))
	f.Add([]byte(`{"taskName":"gpt3","datasetId":"d","distributedConfig":{"enabled":true}}`))
	f.Add([]byte("taskName: BERT中文预训练\ncommand: [a]\n"))
	f.Add([]byte(`{"taskName":null,"taskName":"y"}`))
	f.Add([]byte(`[{"taskName":1}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := decodeTask(data)
		if err != nil {
			if e := fault.From(err); e.Code == fault.Internal {
				t.Fatal(err)
			}
			return
		}
		task := o.(*api.TrainingTask)
		if _, err := json.Marshal(task); err != nil {
			t.Fatal(err)
		}
	})
}
