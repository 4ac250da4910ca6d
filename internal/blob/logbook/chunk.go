package logbook

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	// maxBlock bounds a block in memory and the frame it becomes; also the longest line.
	maxBlock = 32 << 10
	// skipMagic is one of zstd's sixteen skippable frames.
	skipMagic  = 0x184D2A5B
	frameHead  = 16
	maxEncoded = maxBlock + 1024
)

// ref is a committed chunk: bytes [start, end) of the log.
type ref struct{ start, end int64 }

func streamPrefix(taskID, replica string) string { return "logs/" + taskID + "/" + replica + "/" }

func chunkKey(prefix string, r ref) string {
	return fmt.Sprintf("%s%016x-%08x.zst", prefix, r.start, r.end-r.start)
}

// parseKey is the inverse of chunkKey; ok is false for anything else.
func parseKey(prefix, key string) (ref, bool) {
	name, ok := strings.CutPrefix(key, prefix)
	if !ok || len(name) != len("0123456789abcdef-01234567.zst") || name[16] != '-' {
		return ref{}, false
	}
	start, err1 := strconv.ParseUint(name[:16], 16, 63)
	length, err2 := strconv.ParseUint(name[17:25], 16, 32)
	r := ref{int64(start), int64(start) + int64(length)}
	if err1 != nil || err2 != nil || length == 0 || r.end < r.start || chunkKey(prefix, r) != key {
		return ref{}, false
	}
	return r, true
}

// block is a run of whole lines. Bytes once written stay: readers hold slices of data.
type block struct {
	start int64
	data  []byte
}

func (b block) end() int64 { return b.start + int64(len(b.data)) }

func encodeChunk(enc *zstd.Encoder, blocks []block) []byte {
	var out []byte
	for _, b := range blocks {
		at := len(out)
		out = append(out, make([]byte, frameHead)...)
		out = enc.EncodeAll(b.data, out)
		head := out[at : at+frameHead]
		binary.LittleEndian.PutUint32(head, skipMagic)
		binary.LittleEndian.PutUint32(head[4:], frameHead-8)
		binary.LittleEndian.PutUint32(head[8:], uint32(len(out)-at-frameHead))
		binary.LittleEndian.PutUint32(head[12:], uint32(len(b.data)))
	}
	return out
}

// errDamaged says that the bytes of a chunk are wrong, as against that they could not be read.
var errDamaged = errors.New("logbook: damaged chunk")

// readHead reads a frame's header. raw is at most maxBlock.
func readHead(r io.Reader) (encoded, raw int, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, damagedIfShort(err)
	}
	encoded = int(binary.LittleEndian.Uint32(head[8:]))
	raw = int(binary.LittleEndian.Uint32(head[12:]))
	if binary.LittleEndian.Uint32(head[:]) != skipMagic || binary.LittleEndian.Uint32(head[4:]) != frameHead-8 ||
		encoded > maxEncoded || raw > maxBlock || raw == 0 || encoded == 0 {
		return 0, 0, errDamaged
	}
	return encoded, raw, nil
}

// readBody reads and decodes what follows a header. The result is whole lines.
func readBody(dec *zstd.Decoder, r io.Reader, encoded, raw int) ([]byte, error) {
	in := make([]byte, encoded)
	if _, err := io.ReadFull(r, in); err != nil {
		return nil, damagedIfShort(err)
	}
	var h zstd.Header
	if h.Decode(in) != nil || h.HasFCS && h.FrameContentSize != uint64(raw) {
		return nil, errDamaged // before memory is spent on it
	}
	out, err := dec.DecodeAll(in, make([]byte, 0, raw))
	if err != nil || len(out) != raw || out[raw-1] != '\n' {
		return nil, errDamaged
	}
	return out, nil
}

func damagedIfShort(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errDamaged
	}
	return err
}

// countLines counts the lines that end in b. A part of a line, such as a state of a progress bar, is not one.
func countLines(b []byte) (n int) {
	for raw := range bytes.Lines(b) {
		if l, err := ParseLine(bytes.TrimSuffix(raw, []byte{'\n'})); err != nil || !l.Partial {
			n++
		}
	}
	return n
}

func newCodec() (*zstd.Encoder, *zstd.Decoder) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(maxBlock), zstd.WithEncoderCRC(true))
	if err != nil {
		panic(err) // the options are constants
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxBlock*4))
	if err != nil {
		panic(err)
	}
	return enc, dec
}
