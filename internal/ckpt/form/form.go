package form

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/pattern"
)

// Verdict is what a format says of a checkpoint.
type Verdict int

// From the least to the most that is known.
const (
	Unknown Verdict = iota // it has no end that could be seen
	Partial                // it is cut off
	Whole
)

// Judgement is what is known of an entry by its format.
type Judgement struct {
	Verdict Verdict
	Form    string // which it is; "": none that is known
	Step    uint64 // what the format itself says; 0: nothing
	Mark    Mark
}

// Mark is the file beside entries that names the newest of them, for this one. Whoever brings an entry back brings its
// mark with it: the library finds it by that.
type Mark struct{ Name, Text string }

// File is one of an entry's.
type File struct {
	Path  string // from the top of the watched folder
	Bytes int64
}

// Source reads files of the watched folder.
type Source interface {
	// ReadAt is io.ReaderAt's, of the file at path.
	ReadAt(path string, p []byte, at int64) (int, error)
}

// Bounds of what is read.
const (
	maxFiles  = 4096     // of one entry
	maxHeader = 16 << 20 // of a safetensors file
	maxText   = 8 << 20  // of a JSON file
	maxMark   = 4096
	maxEnd    = 22 + 65535 // of a zip: its end record and comment
)

// Marks are the texts of the marker files at the top of a folder, by name.
type Marks map[string]string

// The marker files of libraries.
const (
	markDeepSpeed  = "latest"
	markMegatron   = "latest_checkpointed_iteration.txt"
	markTensorFlow = "checkpoint"
)

// MarkNames are the files that Marks are read from; none is an entry of its own.
var MarkNames = []string{markDeepSpeed, markMegatron, markTensorFlow}

// ReadMark reads a marker file; "": it is none.
func ReadMark(src Source, name string, size int64) string {
	if size <= 0 || size > maxMark {
		return ""
	}
	b := make([]byte, size)
	if n, err := src.ReadAt(name, b, 0); n < len(b) || err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// IsMark says that a file of such a name is one that names others, and no entry: there is says what lies beside it.
func IsMark(name, text string, there func(string) bool) bool {
	switch name {
	case markDeepSpeed:
		return text != "" && (there(text) || deepSpeedTag.MatchString(text))
	case markMegatron:
		return text != ""
	case markTensorFlow:
		return strings.HasPrefix(text, "model_checkpoint_path:")
	}
	return false
}

var deepSpeedTag = pattern.New(`^global_step\d+$`) // what it calls them unless told, though it may be gone

// group is a file that makes a checkpoint only together with others of its stem.
var group = pattern.New(`^(.+)\.(index|data-\d{5}-of-\d{5}|pdparams|pdopt|pdiparams|pdmodel)$`)

// Stem is the name of the entry that a file at the top belongs to; itself for most.
func Stem(name string) string {
	if m := group.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// Main is the entry among the names at the top of a checkpoint of files, whose mark may lie beside it; "": they are no one entry.
func Main(names []string) string {
	list := slices.Clone(names)
	if len(list) > 1 {
		list = slices.DeleteFunc(list, func(n string) bool { return slices.Contains(MarkNames, n) })
	}
	main := ""
	for _, n := range list {
		stem := Stem(n)
		if len(list) == 1 && len(names) == 1 && !group.MatchString(n) {
			stem = n
		}
		if main != "" && stem != main {
			return ""
		}
		main = stem
	}
	return main
}

// Judge says what the format of an entry says of it. ranks is how many processes save; 0: not known.
func Judge(src Source, name string, folder bool, files []File, marks Marks, ranks int) Judgement {
	if len(files) == 0 || len(files) > maxFiles {
		return Judgement{}
	}
	e := &entry{src: src, name: name, marks: marks, ranks: ranks, at: map[string]File{}}
	for _, f := range files {
		within := f.Path
		if folder {
			within = strings.TrimPrefix(f.Path, name+"/")
		}
		e.at[within] = f
		e.names = append(e.names, within)
	}
	slices.Sort(e.names)
	j := Judgement{}
	switch {
	case folder:
		j = e.folder()
	case len(files) > 1 || group.MatchString(files[0].Path):
		j = e.together()
	default:
		j = e.single(files[0])
	}
	if j.Verdict == Whole || j.Verdict == Unknown {
		if e.anyCut(j.Form) {
			j.Verdict = Partial
		}
	}
	if j.Verdict != Whole {
		j.Mark = Mark{}
	}
	return j
}

// entry is what is judged.
type entry struct {
	src   Source
	name  string
	marks Marks
	ranks int
	at    map[string]File // by path within it
	names []string
}

func (e *entry) has(name string) bool { _, ok := e.at[name]; return ok }

// like are those whose path within matches.
func (e *entry) like(r *pattern.Pattern) (out []string) {
	for _, n := range e.names {
		if r.MatchString(n) {
			out = append(out, n)
		}
	}
	return out
}

// anyCut says that one of the files is cut off by what its own format says.
func (e *entry) anyCut(form string) bool {
	return slices.ContainsFunc(e.names, func(n string) bool {
		if form == dcp && strings.HasSuffix(n, ".distcp") {
			return false // many in one file, without an end
		}
		v, _ := e.file(n)
		return v == Partial
	})
}

// The names of formats, as people know them.
const (
	transformers = "transformers"
	lightning    = "lightning"
	accelerate   = "accelerate"
	deepSpeed    = "deepspeed"
	megatron     = "megatron"
	dcp          = "dcp"
	safetensors  = "safetensors"
	torch        = "torch"
	keras        = "keras"
	tensorFlow   = "tensorflow"
	orbax        = "orbax"
	paddle       = "paddle"
)

var (
	trainerRNG    = pattern.New(`^rng_state(_\d+)?\.pth$`)
	trainerRest   = pattern.New(`^(optimizer\.(pt|bin)|optimizer\.pdopt|global_step\d+/.*|optimizer_\d+/.*)$`)
	trainerWith   = pattern.New(`^(rng_state(_\d+)?\.pth|scheduler\.pt|scaler\.pt)$`) // only with what trainerRest is
	accelerateRNG = pattern.New(`^random_states_\d+\.pkl$`)
	deepSpeedFile = pattern.New(`(^|/)(zero_pp_rank_\d+_mp_rank_\d+.*|mp_rank_\d+_model_states|bf16_zero_pp_rank.*|layer_\d+-model.*)\.pt$`)
	megatronName  = pattern.New(`^iter_(\d{7,})$`)
	orbaxFile     = pattern.New(`(^|/)(_CHECKPOINT_METADATA|manifest\.ocdbt)$`)
)

// folder judges by what libraries write last.
func (e *entry) folder() Judgement {
	if strings.Contains(e.name, orbaxTmp) || slices.ContainsFunc(e.names, func(n string) bool { return strings.Contains(n, orbaxTmp) }) {
		return Judgement{Verdict: Partial, Form: orbax}
	}
	switch {
	case e.has("trainer_state.json"):
		return e.trainer()
	case megatronName.MatchString(e.name):
		return e.named(megatron, markMegatron, strings.TrimLeft(megatronName.FindStringSubmatch(e.name)[1], "0"))
	case len(e.like(deepSpeedFile)) > 0:
		return e.named(deepSpeed, markDeepSpeed, e.name)
	case e.has(".metadata"):
		return Judgement{Verdict: Whole, Form: dcp} // written when all ranks have, and moved into place
	case len(e.like(accelerateRNG)) > 0:
		return e.accelerate()
	case len(e.like(orbaxFile)) > 0:
		if raw, err := e.read(e.at["_CHECKPOINT_METADATA"], maxText); err == nil && e.has("_CHECKPOINT_METADATA") {
			return Judgement{Verdict: committed(raw), Form: orbax}
		}
		return Judgement{Verdict: Whole, Form: orbax}
	case e.has("saved_model.pb") && e.has("fingerprint.pb"):
		return Judgement{Verdict: Whole, Form: tensorFlow}
	}
	return Judgement{}
}

// trainer is of a Trainer (Transformers, PaddleNLP): the state is written last, but for the state of random numbers in older
// versions, which comes with that of the optimizer or not at all.
func (e *entry) trainer() Judgement {
	j := Judgement{Form: transformers}
	f := e.at["trainer_state.json"]
	raw, err := e.read(f, maxText)
	if err != nil {
		return j
	}
	var state struct {
		Step *uint64 `json:"global_step"`
	}
	if json.Unmarshal(raw, &state) != nil || state.Step == nil {
		j.Verdict = Partial
		return j
	}
	j.Step = *state.Step
	random := len(e.like(trainerRNG))
	switch {
	case !e.indexed():
		j.Verdict = Partial
	case len(e.like(trainerRest)) > 0 && random == 0 && !slices.ContainsFunc(e.names, func(n string) bool { return strings.HasSuffix(n, ".pdopt") }):
		j.Verdict = Partial
	case len(e.like(trainerRest)) == 0 && len(e.like(trainerWith)) > 0:
		j.Verdict = Unknown // it is being removed, or was saved by somebody we don't know
	case e.ranks > 1 && random > 1 && random < e.ranks:
		j.Verdict = Partial
	default:
		j.Verdict = Whole
	}
	return j
}

// indexed says that all parts are there that an index of weights names.
func (e *entry) indexed() bool {
	for _, n := range e.names {
		if !strings.HasSuffix(n, ".index.json") {
			continue
		}
		raw, err := e.read(e.at[n], maxText)
		if err != nil {
			continue // too long to say
		}
		var index struct {
			Map map[string]string `json:"weight_map"`
		}
		if json.Unmarshal(raw, &index) != nil {
			return false
		}
		for _, part := range index.Map {
			if !e.has(path.Join(path.Dir(n), part)) {
				return false
			}
		}
	}
	return true
}

// committed is what Orbax says of a checkpoint: it gives it its last name when it is whole or, where it was told not to rename, says in its
// metadata when it was committed.
func committed(metadata []byte) Verdict {
	var said struct {
		Begun     *int64 `json:"init_timestamp_nsecs"`
		Committed *int64 `json:"commit_timestamp_nsecs"`
	}
	if json.Unmarshal(metadata, &said) != nil || said.Begun != nil && said.Committed == nil {
		return Partial
	}
	return Whole
}

// accelerate writes each process's random numbers last.
func (e *entry) accelerate() Judgement {
	if n := len(e.like(accelerateRNG)); e.ranks > 0 && n < e.ranks || !e.indexed() {
		return Judgement{Verdict: Partial, Form: accelerate}
	}
	return Judgement{Verdict: Whole, Form: accelerate}
}

// named is whole when the marker names it, or a later one: they are written one after the other. Without a marker nobody knows.
func (e *entry) named(form, mark, own string) Judgement {
	j := Judgement{Form: form, Mark: Mark{mark, own}}
	said, ok := e.marks[mark]
	switch {
	case !ok || said == "":
	case said == own, lastNumber(said) > lastNumber(own) && number.ReplaceAllString(said, "") == number.ReplaceAllString(own, ""):
		j.Verdict = Whole
	}
	return j
}

var number = pattern.New(`\d+`)

func lastNumber(s string) uint64 {
	all := number.FindAllString(s, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(all[len(all)-1], 10, 64)
	return n
}

// together is files of one stem.
func (e *entry) together() Judgement {
	if e.has(e.name + ".index") {
		return e.tensorFlow()
	}
	if e.has(e.name+".pdparams") && e.has(e.name+".pdopt") {
		a, _ := e.file(e.name + ".pdparams")
		b, _ := e.file(e.name + ".pdopt")
		if a == Whole && b == Whole {
			return Judgement{Verdict: Whole, Form: paddle}
		}
		return Judgement{Form: paddle}
	}
	if slices.ContainsFunc(e.names, func(n string) bool { return strings.Contains(n, ".data-") }) {
		return Judgement{Verdict: Partial, Form: tensorFlow} // its index comes last
	}
	return Judgement{Form: paddle}
}

var shard = pattern.New(`\.data-(\d{5})-of-(\d{5})$`)

// tensorFlow: the index is written when all its parts are, and moved into place; its table ends with a known number.
func (e *entry) tensorFlow() Judgement {
	j := Judgement{Verdict: Partial, Form: tensorFlow, Mark: Mark{markTensorFlow, tensorFlowMark(e.name)}}
	parts, want := 0, 0
	for _, n := range e.names {
		if m := shard.FindStringSubmatch(n); m != nil {
			parts++
			want, _ = strconv.Atoi(m[2])
		}
	}
	if parts == 0 || parts < want {
		return j
	}
	const tableMagic = 0xdb4775248b80fb57
	end, err := e.tail(e.at[e.name+".index"], 8)
	if err == nil && binary.LittleEndian.Uint64(end) == tableMagic {
		j.Verdict = Whole
	}
	return j
}

func tensorFlowMark(name string) string {
	q := strconv.Quote(name)
	return "model_checkpoint_path: " + q + "\nall_model_checkpoint_paths: " + q + "\n"
}

// single is one file.
func (e *entry) single(f File) Judgement {
	v, form := e.file(f.Path)
	j := Judgement{Verdict: v, Form: form}
	if v == Whole && form == torch && path.Ext(f.Path) == ".ckpt" {
		j.Form, j.Step = lightning, e.lightningStep(f)
	}
	return j
}

// file judges one by its own format; its name within the entry is given.
func (e *entry) file(name string) (Verdict, string) {
	f := e.at[name]
	switch ext := strings.ToLower(path.Ext(name)); ext {
	case ".safetensors":
		return e.safetensors(f), safetensors
	case ".pt", ".pth", ".bin", ".ckpt", ".pkl", ".tar":
		return e.saved(f), torch
	case ".keras", ".npz", ".zip":
		form := keras
		if ext != ".keras" {
			form = "zip"
		}
		return e.zip(f), form
	case ".h5", ".hdf5":
		return e.hdf5(f), keras
	case ".pdparams", ".pdopt":
		return e.pickle(f), paddle
	case ".json":
		return e.json(f), ""
	}
	if name == ".metadata" {
		return e.pickle(f), dcp
	}
	return Unknown, ""
}

// safetensors has the length of its header, the header, and what the header says.
func (e *entry) safetensors(f File) Verdict {
	head, err := e.part(f, 0, 8)
	if err != nil {
		return cut(f.Bytes < 8, err)
	}
	n := binary.LittleEndian.Uint64(head)
	if n > uint64(f.Bytes)-8 {
		return Partial
	}
	if n > maxHeader {
		return Unknown
	}
	raw, err := e.part(f, 8, int64(n))
	if err != nil {
		return Unknown
	}
	var tensors map[string]json.RawMessage
	if json.Unmarshal(raw, &tensors) != nil {
		return Partial
	}
	end := uint64(0)
	for name, t := range tensors {
		if name == "__metadata__" {
			continue
		}
		var at struct {
			Offsets [2]uint64 `json:"data_offsets"`
		}
		if json.Unmarshal(t, &at) != nil {
			return Partial
		}
		end = max(end, at.Offsets[1])
	}
	if end != uint64(f.Bytes)-8-n {
		return Partial
	}
	return Whole
}

// saved is what torch.save writes: a zip, or in its old way a pickle, of which nothing is known.
func (e *entry) saved(f File) Verdict {
	if f.Bytes == 0 {
		return Partial
	}
	head, err := e.part(f, 0, min(4, f.Bytes))
	if err != nil {
		return Unknown
	}
	switch {
	case len(head) < 4 && bytes.HasPrefix([]byte("PK\x03\x04"), head):
		return Partial
	case bytes.Equal(head, []byte("PK\x03\x04")):
		return e.zip(f)
	case len(head) >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 && path.Ext(f.Path) == ".pkl":
		return e.pickle(f)
	}
	return Unknown
}

// pickle ends with its STOP.
func (e *entry) pickle(f File) Verdict {
	if f.Bytes < 3 {
		return Partial
	}
	head, err := e.part(f, 0, 2)
	if err != nil {
		return Unknown
	}
	if head[0] != 0x80 {
		return Unknown
	}
	end, err := e.tail(f, 1)
	if err != nil {
		return Unknown
	}
	if end[0] != '.' {
		return Partial
	}
	return Whole
}

// json ends with what it began with.
func (e *entry) json(f File) Verdict {
	if f.Bytes > maxText {
		return Unknown
	}
	raw, err := e.read(f, maxText)
	if err != nil {
		return Unknown
	}
	if !json.Valid(raw) {
		if bytes.Contains(raw, []byte("NaN")) || bytes.Contains(raw, []byte("Infinity")) { // Python writes them
			return Unknown
		}
		return Partial
	}
	return Whole
}

// hdf5 says in its head how long it is.
func (e *entry) hdf5(f File) Verdict {
	head, err := e.part(f, 0, min(48, f.Bytes))
	if err != nil || len(head) < 48 {
		return cut(f.Bytes < 48, err)
	}
	if !bytes.Equal(head[:8], []byte("\x89HDF\r\n\x1a\n")) {
		return Unknown
	}
	var end uint64
	switch head[8] {
	case 0, 1:
		if head[13] != 8 {
			return Unknown
		}
		at := 24 // base, free space, end of file: 8 bytes each
		if head[8] == 1 {
			at = 28
		}
		if at+24 > len(head) {
			more, err := e.part(f, 0, min(64, f.Bytes))
			if err != nil || len(more) < at+24 {
				return Unknown
			}
			head = more
		}
		end = binary.LittleEndian.Uint64(head[at+16:])
	case 2, 3:
		if head[9] != 8 {
			return Unknown
		}
		end = binary.LittleEndian.Uint64(head[12+16:])
	default:
		return Unknown
	}
	if uint64(f.Bytes) < end || end == 0 {
		return Partial
	}
	return Whole
}

func cut(short bool, err error) Verdict {
	if short && err == nil || errors.Is(err, io.ErrUnexpectedEOF) && short {
		return Partial
	}
	return Unknown
}

// part reads so many bytes; all of them, or an error.
func (e *entry) part(f File, at, n int64) ([]byte, error) {
	if n < 0 || at < 0 || at+n > f.Bytes {
		return nil, io.ErrUnexpectedEOF
	}
	b := make([]byte, n)
	got, err := e.src.ReadAt(f.Path, b, at)
	if int64(got) < n {
		return nil, cmp.Or(err, error(io.ErrUnexpectedEOF))
	}
	return b, nil
}

func (e *entry) tail(f File, n int64) ([]byte, error) { return e.part(f, f.Bytes-n, n) }

var errLong = errors.New("too long")

func (e *entry) read(f File, most int64) ([]byte, error) {
	if f.Bytes > most {
		return nil, errLong
	}
	return e.part(f, 0, f.Bytes)
}

// orbaxTmp is in the name of what Orbax has not finished.
const orbaxTmp = ".orbax-checkpoint-tmp"

// Unfinished says that a name tells of work under way: hidden, or as writers call what they will rename.
func Unfinished(name string) bool {
	name = strings.ToLower(name)
	for _, end := range []string{".tmp", ".temp", ".part", ".partial", ".incomplete", ".lock", "~"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "tmp") || strings.Contains(name, orbaxTmp) || strings.Contains(name, ".tempstate")
}
