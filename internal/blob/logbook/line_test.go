package logbook

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLine(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 0, 5, time.UTC)
	for _, tt := range []struct {
		line Line
		want string
	}{
		{Line{at, 0, 'O', false, []byte("hello")}, "2026-03-01T12:30:00.000000005Z 0 O F hello"},
		{Line{at, 12, 'E', true, []byte("大模型 \xff\x00")}, "2026-03-01T12:30:00.000000005Z 12 E P 大模型 \xff\x00"},
		{Line{at, -1, 'O', false, []byte{}}, "2026-03-01T12:30:00.000000005Z -1 O F "},
	} {
		got := AppendLine(nil, tt.line)
		if diff := cmp.Diff(tt.want+"\n", string(got)); diff != "" {
			t.Error(diff)
		}
		back, err := ParseLine(got[:len(got)-1])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.line, back); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAppendLineIsAlwaysALine(t *testing.T) {
	for _, l := range []Line{
		{Time: time.Date(123456, 1, 1, 0, 0, 0, 0, time.UTC), Rank: -7, Stream: 'x', Text: []byte("a\nb\n")},
		{Text: bytes.Repeat([]byte("x"), 2*MaxText)},
	} {
		b := AppendLine(nil, l)
		if _, err := ParseLine(b[:len(b)-1]); err != nil {
			t.Errorf("%.60q: %v", b, err)
		}
	}
}

func TestParseLineRefuses(t *testing.T) {
	const ok = "2026-03-01T12:30:00.000000005Z 0 O F x"
	if _, err := ParseLine([]byte(ok)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "x", ok[:36], strings.Replace(ok, "-03-", "-13-", 1), strings.Replace(ok, "-01T", "-32T", 1),
		strings.Replace(ok, "-03-01", "-02-30", 1), strings.Replace(ok, "T12", "T24", 1), strings.Replace(ok, " 0 ", " 00 ", 1),
		strings.Replace(ok, " 0 ", "  ", 1), strings.Replace(ok, " 0 ", " -2 ", 1), strings.Replace(ok, " 0 ", " 1234567890 ", 1),
		strings.Replace(ok, " O ", " X ", 1), strings.Replace(ok, " F ", " f ", 1), ok + "\n", ok + strings.Repeat("x", MaxText),
	} {
		if l, err := ParseLine([]byte(bad)); err == nil {
			t.Errorf("accepted %.60q as %+v", bad, l)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte("2026-03-01T12:30:00.000000005Z 0 O F x"))
	f.Add([]byte("0000-01-01T00:00:00.000000000Z -1 E P \xff"))
	f.Add([]byte("2024-02-29T23:59:59.999999999Z 123456789 O F "))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLine(b)
		if err != nil {
			return
		}
		if got := AppendLine(nil, l); !bytes.Equal(got[:len(got)-1], b) {
			t.Fatalf("%q became %q", b, got)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add(chunkKey("p/", ref{0, 1}))
	f.Add("p/ffffffffffffffff-ffffffff.zst")
	f.Fuzz(func(t *testing.T, key string) {
		if r, ok := parseKey("p/", key); ok && (chunkKey("p/", r) != key || r.start < 0 || r.end <= r.start) {
			t.Fatalf("%q gave %+v", key, r)
		}
	})
}

func FuzzChunk(f *testing.F) {
	enc, dec := newCodec()
	f.Add(encodeChunk(enc, []block{{0, []byte("one\ntwo\n")}, {8, bytes.Repeat([]byte("line\n"), 6000)}}))
	f.Add([]byte("\x5b\x2a\x4d\x18\x08\x00\x00\x00\xff\xff\xff\xff\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			encoded, raw, err := readHead(r)
			if err != nil {
				return
			}
			body, err := readBody(dec, r, encoded, raw)
			if err != nil {
				return
			}
			if len(body) != raw || len(body) > maxBlock || body[len(body)-1] != '\n' {
				t.Fatalf("a frame of %d bytes, not %d", len(body), raw)
			}
		}
	})
}
