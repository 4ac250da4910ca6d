package objects

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// FuzzCursor: whatever is taken stands for itself.
func FuzzCursor(f *testing.F) {
	for _, word := range SortWords {
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

func TestCursor(t *testing.T) {
	for _, word := range SortWords {
		o := orderOf(word)
		p := place{id: "task-0123"}
		if o.by != "id" {
			p.value = "v"
		}
		got, err := decodeCursor(encodeCursor(o, p), o)
		if err != nil || *got != p {
			t.Errorf("%s: %+v %v", word, got, err)
		}
	}
	other := encodeCursor(orderOf("name"), place{"v", "task-1"})
	for _, text := range []string{"x", "!!", other, strings.Repeat("A", 5000), "e30", "bnVsbA"} {
		if p, err := decodeCursor(text, orderOf("-createdAt")); err == nil {
			t.Errorf("%q was taken: %+v", text, p)
		}
	}
}

// FuzzQuery: never panics; what is taken is within its bounds.
func FuzzQuery(f *testing.F) {
	f.Add("limit=5&sort=-name&phase=Pending,Failed&label=a%3Db")
	f.Add("limit=0")
	f.Add("since=10m&follow=true&tail=9")
	f.Add("%zz&;=")
	table := NewKinds(access.NewRules())
	table.by[api.KindTrainingTask] = &Hooks{Filter: &Filtering{Phases: []string{"Pending", "Failed"}, By: func(api.Object) (string, string) { return "", "" }}}
	params := append((&Objects{kinds: table}).listParams(api.MustInfo(api.KindTrainingTask)),
		rest.Param{Name: "follow", Form: rest.FormBool}, rest.Param{Name: "tail", Form: rest.FormInt, Max: 1000000}, rest.Param{Name: "since", Form: rest.FormTime})
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := rest.ParseQuery(raw, params)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		if n := q.Number("limit"); n < 1 || n > 500 {
			t.Fatalf("limit %d", n)
		}
		if len(q.All("phase")) > rest.MaxValues {
			t.Fatal("too many values")
		}
		q.Pairs("label")
		(&Lister{kinds: table}).filterOf(q, api.KindTrainingTask)
	})
}
