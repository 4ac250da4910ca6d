package server

import (
	"encoding/json"
	"slices"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// FuzzCursor: whatever is taken stands for itself.
func FuzzCursor(f *testing.F) {
	for _, word := range sortWords {
		f.Add(encodeCursor(orderOf(word), place{"", "task-0123456789"}), word)
	}
	f.Add("", "name")
	f.Add("eyJzIjoibmFtZSJ9", "name")
	f.Fuzz(func(t *testing.T, text, word string) {
		o := orderOf(word)
		p, err := decodeCursor(text, o)
		switch {
		case err != nil:
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
		case p != nil:
			again, err := decodeCursor(encodeCursor(o, *p), o)
			if err != nil || *again != *p {
				t.Fatalf("%+v became %+v (%v)", p, again, err)
			}
		}
	})
}

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

// FuzzQuery: never panics; what is taken is within its bounds.
func FuzzQuery(f *testing.F) {
	f.Add("limit=5&sort=-name&phase=Pending,Failed&label=a%3Db")
	f.Add("limit=0")
	f.Add("since=10m&follow=true&tail=9")
	f.Add("%zz&;=")
	srv := emptyServer(f)
	params := append(slices.Clone(routeOf(f, srv, "listTrainingTask").query), logParams[2:]...)
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseQuery(raw, params)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		if n := q.number("limit"); n < 1 || n > 500 {
			t.Fatalf("limit %d", n)
		}
		if len(q.all("phase")) > maxValues {
			t.Fatal("too many values")
		}
		q.pairs("label")
		srv.lister.filterOf(q, api.KindTrainingTask)
	})
}

// FuzzSecret: no text but a well-formed one names a token.
func FuzzSecret(f *testing.F) {
	f.Add("fermi_a_0123456789012345678901234567890123456789012")
	f.Add("fermi__")
	f.Add("Bearer fermi_a_b")
	f.Fuzz(func(t *testing.T, text string) {
		if name, ok := tokenName(bearer("Bearer " + text)); ok && !api.IsName(name) {
			t.Fatalf("%q", name)
		}
		language(text)
	})
}
