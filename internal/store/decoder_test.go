package store

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// quick decodes without falling back.
func quick(raw []byte, zero any) bool {
	d := &decoder{raw: raw}
	v := reflect.ValueOf(zero).Elem()
	return planOf(v.Type())(d, v) && d.pos == len(raw)
}

// What json.Marshal writes of our kinds is read the quick way: otherwise it is of no use.
func TestDecoderKnowsOurKinds(t *testing.T) {
	seven := 7
	objects := []api.Object{
		bigTask(1),
		&api.TrainingTask{Spec: api.TrainingTaskSpec{Description: "a \"quoted\" <b>\n中文", Priority: &seven, Restart: &api.RestartPolicy{MaxRestarts: 3, Window: 5e9}}},
		&api.Zone{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{LatencyMs: map[string]float64{"a": 1.25, "b": 1e-7}, Price: api.Price{MemoryGBHour: 12.5, Windows: []api.PriceWindow{{From: "22:00", To: "06:00", Factor: 0.5}}}, Carbon: &api.Carbon{ByHour: []float64{1, 2}}}, Status: api.ZoneStatus{Measured: map[string]api.MeasuredLatency{"a": {P50Ms: 1.5}}}},
		&api.Node{Spec: api.NodeSpec{Number: 9, CPU: 1500, Memory: 1 << 40, Devices: []api.Device{{Index: 1, Type: "A100", Virtual: true}}}},
		&api.Placement{Spec: api.PlacementSpec{Roles: []api.RoleAssignment{{Role: "w", Slots: api.Slots{{Node: 1, Devices: 1 << 63}}}}}},
		&api.Queue{Spec: api.QueueSpec{Paused: true, Guarantee: map[string]int{"A100": -4}}},
		&api.Project{Spec: api.ProjectSpec{Members: []string{}}}, &api.User{}, &api.Token{},
	}
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		got := api.MustInfo(o.Kind()).New()
		if !quick(raw, got) {
			t.Errorf("%s goes the slow way: %s", o.Kind(), raw)
		}
		want := api.MustInfo(o.Kind()).New()
		if err := json.Unmarshal(raw, want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", o.Kind(), diff)
		}
	}
}

// every has all shapes that the decoder compiles.
type every struct {
	S    string             `json:"s"`
	B    bool               `json:"b,omitempty"`
	I    int8               `json:"i"`
	L    int64              `json:"l"`
	U    uint16             `json:"u"`
	F    float64            `json:"f"`
	G    float32            `json:"g"`
	P    *int               `json:"p"`
	PP   **string           `json:"pp"`
	A    []string           `json:"a"`
	N    []every            `json:"-"`
	E    []inner            `json:"e"`
	M    map[string]inner   `json:"m"`
	X    any                `json:"x"`
	Raw  []byte             `json:"raw"`
	Q    api.Bytes          `json:"q"`
	D    *api.Duration      `json:"d"`
	K    map[int]string     `json:"k"`
	Z    inner              `json:"z,omitzero"`
	Num  json.Number        `json:"num"`
	Msg  json.RawMessage    `json:"msg"`
	Fs   map[string]float64 `json:"fs"`
	Bare int
}

type inner struct {
	A int    `json:"a"`
	B string `json:"b"`
}

func FuzzDecoderAgrees(f *testing.F) {
	for _, s := range []string{
		`{"s":"x","b":true,"i":-3,"l":9007199254740993,"u":65535,"f":1.5e3,"g":0.1,"p":1,"pp":"q","a":["1","2"],"e":[{"a":1},{"b":"2"}],"m":{"k":{"a":1}},"x":{"y":[1,null]},"raw":"aGk=","q":"16Gi","d":"1h","k":{"1":"a"},"z":{"a":2},"num":12,"msg":[1],"fs":{"a":0},"Bare":4}`,
		`{"s":null,"p":null,"a":null,"m":null,"x":null,"q":null}`, `{"s":"\u003c\n","a":["\ud800"]}`, `{"s":"a","s":"b"}`, `{"e":[{"a":1,"b":"x"}],"e":[{"a":2}]}`,
		`{"m":{"k":{"a":1},"k":{"b":"x"}}}`, `{"S":"case"}`, `{"i":128}`, `{"i":01}`, `{"i":1.0}`, `{"u":-0}`, `{"l":-0}`, `{"a":[]}`, `{"m":{}}`, `{"a":[1]}`, `{"b":tru}`, `{"f":+1}`,
		`{"f":.5}`, `{"f":1e400}`, `{"g":1e39}`, `{"x":[}`, `{"x":{]}`, `{ "s":"x"}`, `{"s":"x"} `, `{"s":"x"}}`, `null`, `[]`, `{"q":"1x"}`, `{"q":"1Gi"B}`, `{"num":"5"}`, `{"num":""}`, `{"unknown":1}`, "{\"s\":\"\xff\"}", `{"s":"a` + "\x01" + `"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want, got, fast every
		wantErr, gotErr := json.Unmarshal(raw, &want), unmarshal(raw, &got)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("json says %v, we say %v", wantErr, gotErr)
		}
		if wantErr == nil && !reflect.DeepEqual(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
		if quick(raw, &fast) && wantErr != nil {
			t.Fatalf("the quick way accepts what json refuses: %v", wantErr)
		}
	})
}
