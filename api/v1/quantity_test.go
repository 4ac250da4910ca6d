package v1

import (
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestParseBytes(t *testing.T) {
	good := map[string]Bytes{"16Gi": 16 << 30, "1.5G": 1500e6, "1024": 1024, "0": 0, "-1Ki": -1024, "1e3": 1000, "1E": 1e18, "0.5Ki": 512, "+2": 2, "8000m": 8, "7Ei": 7 << 60}
	for in, want := range good {
		if got, err := ParseBytes(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "x", "16GB", "16gb", "16 Gi", "500m", "1.5", "8Ei", "-8Ei", "1e99", "1e999999", "1E+30", "--1", "1.2.3", "∞", strings.Repeat("1", 65), strings.Repeat("9", 30)} {
		_, err := ParseBytes(in)
		var ve *ValueError
		if !errors.As(err, &ve) {
			t.Errorf("%q: %v", in, err)
			continue
		}
		sentence(t, ve.Text)
	}
}

func TestParseMilliCPU(t *testing.T) {
	good := map[string]MilliCPU{"500m": 500, "64": 64000, "1.5": 1500, "1k": 1e6, "-1": -1000, "0.001": 1, "1e3": 1e6}
	for in, want := range good {
		if got, err := ParseMilliCPU(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "8 cores", "0.0001", "500u", "1n", "1e18", "1e77", "9E"} {
		_, err := ParseMilliCPU(in)
		var ve *ValueError
		if !errors.As(err, &ve) {
			t.Errorf("%q: %v", in, err)
			continue
		}
		sentence(t, ve.Text)
	}
}

func TestQuantityJSON(t *testing.T) {
	var r struct {
		C MilliCPU
		B Bytes
		D Duration
	}
	if err := json.Unmarshal([]byte(`{"C":1.5,"B":1e3,"D":"90s"}`), &r); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(r)
	if err != nil || string(out) != `{"C":"1500m","B":"1k","D":"1m30s"}` {
		t.Error(string(out), err)
	}
	if r.D.Std() != 90*time.Second {
		t.Error(r.D)
	}
}

// exact is what a quantity means, worked out slowly with big rationals.
func exact(s string) *big.Rat {
	m := regexp.MustCompile(`^([+-]?[0-9.]+)(.*)$`).FindStringSubmatch(s)
	if m == nil {
		return nil
	}
	number, suffix := m[1], m[2]
	if strings.HasSuffix(number, ".") {
		number += "0"
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return nil
	}
	if len(suffix) > 1 && (suffix[0] == 'e' || suffix[0] == 'E') && suffix != "Ei" {
		x, ok := new(big.Rat).SetString("1" + suffix)
		if !ok {
			return nil
		}
		return r.Mul(r, x)
	}
	base, unit := int64(1000), suffix
	if strings.HasSuffix(suffix, "i") {
		base, unit = 1024, strings.ToLower(suffix[:1])
		if unit != "k" {
			unit = strings.ToUpper(unit)
		}
	}
	power := map[string]int{"": 0, "n": -3, "u": -2, "m": -1, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
	n, ok := power[unit]
	if !ok {
		return nil
	}
	for ; n > 0; n-- {
		r.Mul(r, big.NewRat(base, 1))
	}
	for ; n < 0; n++ {
		r.Quo(r, big.NewRat(1000, 1))
	}
	return r
}

func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"16Gi", "500m", "1.5", "1e3", "-1Ki", "1e99", "1E", "7Ei", "9223372036854775807", "0.1Ki", "16GB", "1n", ".5", "5.", "1e-9", "00001", "-6E"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := ParseBytes(s)
		if err == nil {
			want := exact(s)
			if want == nil || want.Cmp(new(big.Rat).SetInt64(int64(b))) != 0 {
				t.Errorf("ParseBytes(%q) = %d, want %v", s, b, want)
			}
			if again, err := ParseBytes(b.String()); err != nil || again != b {
				t.Errorf("%q: %d is written %q and read %d, %v", s, b, b, again, err)
			}
		} else {
			bilingual(t, err.(*ValueError).Text)
		}
		c, err := ParseMilliCPU(s)
		if err == nil {
			want := exact(s)
			if want == nil || want.Cmp(big.NewRat(int64(c), 1000)) != 0 {
				t.Errorf("ParseMilliCPU(%q) = %d, want %v", s, c, want)
			}
			if again, err := ParseMilliCPU(c.String()); err != nil || again != c {
				t.Errorf("%q: %d is written %q and read %d, %v", s, c, c, again, err)
			}
		} else {
			bilingual(t, err.(*ValueError).Text)
		}
		if d, err := ParseDuration(s); err == nil {
			if again, err := ParseDuration(d.String()); err != nil || again != d {
				t.Errorf("%q: %s is read %s, %v", s, d, again, err)
			}
		}
	})
}

func FuzzSlots(f *testing.F) {
	for _, s := range []string{`""`, `"AAAAAQAAAAAAAAD/"`, `"AAAA"`, `null`, `[1,2]`, `7`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Slots
		if s.UnmarshalJSON(data) != nil {
			return
		}
		out, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var again Slots
		if err := json.Unmarshal(out, &again); err != nil || len(again) != len(s) {
			t.Fatalf("%s: %v", out, err)
		}
		for i := range s {
			if s[i] != again[i] {
				t.Errorf("slot %d: %v, then %v", i, s[i], again[i])
			}
		}
	})
}
