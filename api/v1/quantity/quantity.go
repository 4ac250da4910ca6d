package quantity

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fermi-cluster/fermi/api/v1/tree"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// Bytes is an amount of memory or disk. JSON: a Kubernetes quantity ("16Gi") or a plain number of bytes.
type Bytes int64

// MilliCPU is thousandths of a core. JSON: a Kubernetes quantity of cores ("500m", "64").
type MilliCPU int64

// Duration is a time span. JSON: Go's notation ("90s", "1h30m") .
type Duration time.Duration

// ValueError says in both languages why a value was not understood and what would be right.
type ValueError struct{ Text fault.Text }

func (e *ValueError) Error() string { return e.Text.EN }

// Wrong makes one.
func Wrong(en, zh string, args ...any) *ValueError {
	return &ValueError{fault.T(en, zh, args...)}
}

// ParseBytes reads "16Gi", "1.5G", "1024". Errors are *ValueError.
func ParseBytes(s string) (Bytes, error) {
	q, err := parse(s, "Gi")
	if err != nil {
		return 0, err
	}
	if rest, ok := strings.CutPrefix(s, "-"); ok { // the parser misreads large ones below zero, such as -5859375000000000Ki
		v, err := ParseBytes(rest)
		if err != nil {
			return 0, Wrong("%s is not an amount of bytes that can be counted.", "%s 不是可表示的字节数。", tree.Quote(s))
		}
		return -v, nil
	}
	// The parser caps without a word what does not fit 63 bits: the cap itself is refused too.
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return 0, Wrong("%s is more bytes than can be counted.", "%s 超出可表示的字节数。", tree.Quote(s))
	}
	v := q.Value() // rounds up
	if q.CmpInt64(v) != 0 {
		if n, ok := strings.CutSuffix(s, "m"); ok {
			return 0, Wrong("%[1]s means thousandths of a byte; write %[2]sM or %[2]sMi for millions of bytes.", "%[1]s 表示千分之一字节；如需兆字节请写 %[2]sM 或 %[2]sMi。", tree.Quote(s), n)
		}
		return 0, Wrong("%s is not a whole number of bytes; write it like 1536Mi.", "%s 不是整数字节，请写成 1536Mi 这样的形式。", tree.Quote(s))
	}
	return Bytes(v), nil
}

// ParseMilliCPU reads "500m", "64", "1.5". Errors are *ValueError.
func ParseMilliCPU(s string) (MilliCPU, error) {
	q, err := parse(s, "m")
	if err != nil {
		return 0, err
	}
	if q.CmpInt64(math.MaxInt64/1000) > 0 || q.CmpInt64(-math.MaxInt64/1000) < 0 {
		return 0, Wrong("%s is more cores than can be counted.", "%s 超出可表示的核数。", tree.Quote(s))
	}
	v := q.MilliValue()
	if q.Cmp(*resource.NewMilliQuantity(v, resource.DecimalSI)) != 0 {
		return 0, Wrong("%s is finer than a thousandth of a core; 1m is the smallest.", "%s 小于千分之一核；最小单位为 1m。", tree.Quote(s))
	}
	return MilliCPU(v), nil
}

// ParseDuration reads "90s", "1h30m". Errors are *ValueError.
func ParseDuration(s string) (Duration, error) {
	if len(s) <= 64 {
		if v, err := time.ParseDuration(s); err == nil {
			return Duration(v), nil
		}
	}
	return 0, Wrong("%s is not a duration with a unit such as \"90s\", \"15m\" or \"1h30m\".", "%s 不是带单位的时长，请写成 \"90s\"、\"15m\" 或 \"1h30m\" 这样的形式。", tree.Quote(s))
}

// form is what we let through to the Kubernetes parser. It is narrower in one way: exponents have
// at most two digits, because beyond that the parser answers zero instead of an error.
var form = pattern.New(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,2})?$`)

// slip is a unit as people write it elsewhere.
var slip = pattern.New(`^([+-]?[0-9]+(?:\.[0-9]+)?) ?([kKmMgGtTpP])(?:i?[bB])?$`)

func parse(s, unit string) (resource.Quantity, error) {
	if len(s) <= 64 && form.MatchString(s) {
		if q, err := resource.ParseQuantity(s); err == nil {
			return q, nil
		}
	}
	if unit == "m" {
		return resource.Quantity{}, Wrong("%s is not a number of cores such as 500m (half a core), 1.5 or 64.", "%s 不是合法的核数，请写成 500m（半核）、1.5 或 64 这样的形式。", tree.Quote(s))
	}
	if m := slip.FindStringSubmatch(s); m != nil && len(s) <= 64 {
		letter := strings.ToUpper(m[2])
		small := letter
		if letter == "K" {
			small = "k"
		}
		return resource.Quantity{}, Wrong("%[1]s has an unknown unit; write %[2]s%[3]si (powers of 1024) or %[2]s%[4]s (powers of 1000).", "%[1]s 的单位无法识别；请写 %[2]s%[3]si（1024 进制）或 %[2]s%[4]s（1000 进制）。", tree.Quote(s), m[1], letter, small)
	}
	return resource.Quantity{}, Wrong("%s is not an amount of bytes such as 512Mi, 16Gi or 1024.", "%s 不是合法的字节数，请写成 512Mi、16Gi 或 1024 这样的形式。", tree.Quote(s))
}

func (b Bytes) String() string {
	return resource.NewQuantity(int64(b), resource.BinarySI).String()
}

func (c MilliCPU) String() string {
	return resource.NewMilliQuantity(int64(c), resource.DecimalSI).String()
}

func (d Duration) String() string { return time.Duration(d).String() }

// Std is the standard library's duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// MarshalJSON writes the canonical quantity.
func (b Bytes) MarshalJSON() ([]byte, error) { return json.Marshal(b.String()) }

// MarshalJSON writes the canonical quantity.
func (c MilliCPU) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// MarshalJSON writes Go's notation.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a quantity given as string or number.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	s, ok := Scalar(data)
	if !ok {
		return Wrong("Expected an amount of bytes such as \"16Gi\".", "此处应为字节数，例如 \"16Gi\"。")
	}
	v, err := ParseBytes(s)
	if err != nil {
		return err
	}
	*b = v
	return nil
}

// UnmarshalJSON reads a quantity given as string or number.
func (c *MilliCPU) UnmarshalJSON(data []byte) error {
	s, ok := Scalar(data)
	if !ok {
		return Wrong("Expected a number of cores such as \"500m\" or 64.", "此处应为核数，例如 \"500m\" 或 64。")
	}
	v, err := ParseMilliCPU(s)
	if err != nil {
		return err
	}
	*c = v
	return nil
}

// UnmarshalJSON reads Go's notation; a bare number is refused because its unit is a guess.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return Wrong("Expected a duration with a unit such as \"90s\", \"15m\" or \"1h30m\"; a bare number leaves the unit to guess.", "此处应为带单位的时长，例如 \"90s\"、\"15m\" 或 \"1h30m\"；单独的数字没有单位。")
	}
	v, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// Scalar is the text of a JSON string or number.
func Scalar(data []byte) (string, bool) {
	var s string
	if json.Unmarshal(data, &s) == nil {
		return s, true
	}
	var n json.Number
	if json.Unmarshal(data, &n) == nil {
		return n.String(), true
	}
	return "", false
}
