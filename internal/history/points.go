package history

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Point is one value of a series.
type Point struct {
	Time  time.Time
	Step  int64
	Value float64 // may be no finite number
}

// Series is one curve: what a rank says under a name in one generation, or with OfReplica as its rank what is measured of
// the whole replica.
type Series struct {
	Name       string
	Replica    string // its whole name, with the attempt
	Rank       int
	Generation int64
}

// OfReplica is the rank of what is measured of a whole replica.
const OfReplica = -1

// Line is points of a series, in the order they were made.
type Line struct {
	Name       string
	Rank       int
	Generation int64
	Points     []Point
}

// Batch is what a launcher hands over at once. Numbers of a replica only rise; a batch that comes again has the same.
type Batch struct {
	TaskID  string
	Replica string
	Seq     int64 // from 1
	Dropped int64 // points that the launcher had no room for, since it began
	Lines   []Line
}

// The bounds of a batch.
const (
	MaxBatch      = 256 << 10 // bytes, encoded
	MaxLines      = 4096
	MaxSeriesName = 128 // bytes
)

// Block is some points of a series, encoded.
type Block struct {
	Data  []byte
	Made  int64 // points that it stands for: more than it holds once they were thinned
	Count int64 // points that it holds
	// Outlined: Data holds only its outline, fewer points than Count.
	Outlined bool
	Extent
}

// Extent is where points lie.
type Extent struct {
	FirstStep, LastStep int64 // lowest and highest
	FirstTime, LastTime int64 // likewise; Unix nanoseconds
}

// Span selects points; zero values are no bound. Blocks are handed out whole where any of their points may be inside.
type Span struct {
	FromStep, ToStep *int64
	FromTime, ToTime *int64 // Unix nanoseconds
	// Outlines asks for the outlines of blocks that lie wholly inside, where there are any.
	Outlines bool
}

// Holds says whether a point is inside.
func (s Span) Holds(t, step int64) bool {
	return (s.FromStep == nil || step >= *s.FromStep) && (s.ToStep == nil || step <= *s.ToStep) &&
		(s.FromTime == nil || t >= *s.FromTime) && (s.ToTime == nil || t <= *s.ToTime)
}

// Touches says whether a block may have a point inside.
func (s Span) Touches(e Extent) bool {
	return (s.FromStep == nil || e.LastStep >= *s.FromStep) && (s.ToStep == nil || e.FirstStep <= *s.ToStep) &&
		(s.FromTime == nil || e.LastTime >= *s.FromTime) && (s.ToTime == nil || e.FirstTime <= *s.ToTime)
}

// Metrics keeps points of tasks.
type Metrics interface {
	// AddPoints commits a batch, wholly and once: one whose number is not above the last of its replica is known already, and
	// passed over. Fault Invalid: it is none.
	AddPoints(ctx context.Context, b Batch) error
	// Series lists the curves of a task, by name, rank, generation and replica, and says how many points launchers had to drop.
	Series(ctx context.Context, taskID string) (list []Series, dropped int64, err error)
	// Points hands out the blocks of one series in the order they were added. An error of each ends it and is returned.
	Points(ctx context.Context, taskID string, s Series, in Span, each func(Block) error) error
	// ForgetPoints deletes all points of tasks; none is fine.
	ForgetPoints(ctx context.Context, taskIDs ...string) error
}

// How points are kept by adapters: a batch is one row as it came, so that a second of a thousand ranks is few rows. When a
// replica has so many of them, they are folded into the blocks of their series.
const (
	FoldRows  = 64
	FoldBytes = 1 << 20
	// MaxBlocks of a series are two million points. Then neighbours are thinned to half, which keeps extremes.
	MaxBlocks = 2048
)

// Check refuses what no launcher says.
func (b Batch) Check() error {
	bad := func(text fault.Text) error { return fault.New(fault.Invalid, "BadPoints", text) }
	if b.TaskID == "" || b.Replica == "" || b.Seq <= 0 || b.Dropped < 0 || len(b.Lines) > MaxLines {
		return bad(fault.T("A batch of points is not whole.", "数据点批次不完整。"))
	}
	for _, l := range b.Lines {
		if !isSeriesName(l.Name) || l.Rank < OfReplica || l.Rank > math.MaxInt32 || l.Generation < 0 || len(l.Points) == 0 || len(l.Points) > MaxBlock {
			return bad(fault.T("A line of points is not whole.", "数据点序列不完整。"))
		}
		for _, p := range l.Points {
			if y := p.Time.Year(); y < 1700 || y > 2200 || p.Step < 0 {
				return bad(fault.T("The time or step of a point is out of range.", "数据点的时间或步数超出范围。"))
			}
		}
	}
	return nil
}

func isSeriesName(s string) bool {
	return s != "" && len(s) <= MaxSeriesName && utf8.ValidString(s) && !strings.ContainsFunc(s, isOdd)
}

// isOdd is a character that no name has: terminals act on some, and lists of names are parted by commas.
func isOdd(r rune) bool { return unicode.IsControl(r) || r == ',' }

// SeriesName makes a name of any text, bounded. "" is none.
func SeriesName(s string) string {
	s = strings.Map(func(r rune) rune {
		if isOdd(r) || r == utf8.RuneError {
			return '_'
		}
		return r
	}, strings.TrimSpace(s))
	if len(s) > MaxSeriesName {
		s = strings.ToValidUTF8(s[:MaxSeriesName], "")
	}
	return s
}

const linesVersion = 1

// EncodeLines packs the lines of a batch, which has passed Check.
func EncodeLines(lines []Line) []byte {
	out := binary.AppendUvarint([]byte{linesVersion}, uint64(len(lines)))
	for _, l := range lines {
		out = binary.AppendUvarint(out, uint64(len(l.Name)))
		out = append(out, l.Name...)
		out = binary.AppendVarint(out, int64(l.Rank))
		out = binary.AppendVarint(out, l.Generation)
		block := EncodePoints(l.Points)
		out = binary.AppendUvarint(out, uint64(len(block)))
		out = append(out, block...)
	}
	return out
}

// PackedLine is a line whose points are still packed.
type PackedLine struct {
	Name       string
	Rank       int
	Generation int64
	Block      []byte // of the bytes that it was read from
}

// UnpackLines is half of the way back: lines are told apart, and their points stay packed.
func UnpackLines(b []byte) ([]PackedLine, error) {
	if len(b) < 2 || b[0] != linesVersion {
		return nil, errPoints
	}
	r := reader{b: b[1:]}
	count := r.uvarint(MaxLines)
	out := make([]PackedLine, 0, min(count, uint64(len(b))))
	for range count {
		l := PackedLine{Name: string(r.bytes(MaxSeriesName))}
		rank := r.varint()
		l.Generation = r.varint()
		l.Block = r.bytes(uint64(len(b)))
		if r.bad || !isSeriesName(l.Name) || rank < OfReplica || rank > math.MaxInt32 || l.Generation < 0 {
			return nil, errPoints
		}
		l.Rank = int(rank)
		out = append(out, l)
	}
	if r.bad || len(r.b) != 0 {
		return nil, errPoints
	}
	return out, nil
}

// DecodeLines is the whole way back.
func DecodeLines(b []byte) ([]Line, error) {
	packed, err := UnpackLines(b)
	if err != nil {
		return nil, err
	}
	out := make([]Line, len(packed))
	for i, l := range packed {
		if out[i] = (Line{Name: l.Name, Rank: l.Rank, Generation: l.Generation}); err == nil {
			out[i].Points, err = DecodePoints(l.Block)
		}
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// reader takes bytes apart; once it is bad all it gives is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(most uint64) []byte {
	n := r.uvarint(most)
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// BlockOf packs at most MaxBlock points that stand for so many.
func BlockOf(points []Point, made int64) Block {
	b := Block{Data: EncodePoints(points), Made: made, Count: int64(len(points))}
	for i, p := range points {
		b.widen(p.Time.UnixNano(), p.Step, i == 0)
	}
	return b
}

func (e *Extent) widen(t, step int64, first bool) {
	if first {
		*e = Extent{step, step, t, t}
		return
	}
	e.FirstStep, e.LastStep = min(e.FirstStep, step), max(e.LastStep, step)
	e.FirstTime, e.LastTime = min(e.FirstTime, t), max(e.LastTime, t)
}

// Known is a number for the set of curves that a batch has, so that an adapter need not look for each every time.
func (b Batch) Known() int64 {
	h := uint64(14695981039346656037)
	mix := func(v uint64) { h = (h ^ v) * 1099511628211 }
	for _, l := range b.Lines {
		for i := range len(l.Name) {
			mix(uint64(l.Name[i]))
		}
		mix(uint64(l.Rank) + 1<<40)
		mix(uint64(l.Generation) + 1<<50)
	}
	return int64(h >> 1)
}

// Gathered are the points of batches by series, in the order of the batches. Upto is the number of the last one.
type Gathered struct {
	series map[Series][]Point
	order  []Series
	Upto   int64
}

// Add takes the next batch, as EncodeLines packed it.
func (f *Gathered) Add(replica string, seq int64, data []byte) error {
	lines, err := DecodeLines(data)
	if err != nil {
		return err
	}
	if f.series == nil {
		f.series = map[Series][]Point{}
	}
	for _, l := range lines {
		s := Series{Name: l.Name, Replica: replica, Rank: l.Rank, Generation: l.Generation}
		if _, there := f.series[s]; !there {
			f.order = append(f.order, s)
		}
		f.series[s] = append(f.series[s], l.Points...)
	}
	f.Upto = max(f.Upto, seq)
	return nil
}

// Each gives the points of each series.
func (f *Gathered) Each(do func(s Series, points []Point) error) error {
	for _, s := range f.order {
		if err := do(s, f.series[s]); err != nil {
			return err
		}
	}
	return nil
}

// Grow continues a series whose last block is this, nil where it has none: the first of what it gives takes its place.
func Grow(last *Block, points []Point) ([]Block, error) {
	var have []Point
	var before int64 // points that the last block stands for and does not hold
	if last != nil {
		var err error
		if have, err = DecodePoints(last.Data); err != nil {
			return nil, err
		}
		before = last.Made - last.Count
	}
	var out []Block
	for all := slices.Concat(have, points); len(all) > 0; {
		n := min(len(all), MaxBlock)
		out = append(out, BlockOf(all[:n], int64(n)+before))
		all, before = all[n:], 0
	}
	return out, nil
}

// Thin halves blocks: of every four points the lowest and the highest stay, in their order; one that is no number stays before
// the lowest.
func Thin(blocks []Block) ([]Block, error) {
	var out []Block
	var points []Point
	var made int64
	flush := func() {
		if len(points) > 0 {
			out = append(out, BlockOf(points, made))
			points, made = nil, 0
		}
	}
	for _, b := range blocks {
		list, err := DecodePoints(b.Data)
		if err != nil {
			return nil, err
		}
		half := make([]Point, 0, len(list)/2+2)
		for four := range slices.Chunk(list, 4) {
			half = append(half, extremes(four)...)
		}
		if len(points)+len(half) > MaxBlock {
			flush()
		}
		points, made = append(points, half...), made+b.Made
	}
	flush()
	return out, nil
}

func extremes(list []Point) []Point {
	if len(list) <= 2 {
		return list
	}
	low, high, not := -1, -1, -1
	for i, p := range list {
		if math.IsNaN(p.Value) {
			if not < 0 {
				not = i
			}
			continue
		}
		if low < 0 || p.Value < list[low].Value {
			low = i
		}
		if high < 0 || p.Value >= list[high].Value {
			high = i
		}
	}
	keep := []int{low, high}
	if not >= 0 {
		keep[0] = not
	}
	slices.Sort(keep)
	var out []Point
	for _, k := range slices.Compact(keep) {
		if k >= 0 {
			out = append(out, list[k])
		}
	}
	return out
}

// Tail is what batches that are not folded yet hold of a series.
type Tail struct {
	Of   Series
	In   Span
	list []tailed
	upto int64 // what is in blocks
}

type tailed struct {
	seq int64
	Block
}

// Add takes the next batch of the replica, as EncodeLines packed it.
func (t *Tail) Add(seq int64, data []byte) error {
	lines, err := UnpackLines(data)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if l.Name != t.Of.Name || l.Rank != t.Of.Rank || l.Generation != t.Of.Generation {
			continue
		}
		b := Block{Data: slices.Clone(l.Block)}
		if err := EachPoint(b.Data, func(at, step int64, _ float64) {
			b.widen(at, step, b.Count == 0)
			b.Count++
		}); err != nil {
			return err
		}
		b.Made = b.Count
		t.list = append(t.list, tailed{seq, b})
	}
	return nil
}

// Skip says that batches up to this one are in blocks.
func (t *Tail) Skip(upto int64) { t.upto = max(t.upto, upto) }

// Each gives what is left.
func (t *Tail) Each(do func(Block) error) error {
	for _, b := range t.list {
		if b.seq <= t.upto || !t.In.Touches(b.Extent) {
			continue
		}
		if err := do(b.Block); err != nil {
			return err
		}
	}
	return nil
}
