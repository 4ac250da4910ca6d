package v1

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// AuditEntry is one thing that somebody asked for: a change, a read of what tasks left behind, the use of a
// secret, or something that was refused.
type AuditEntry struct {
	Seq      int64     `json:"seq" doc:"Grows; the cursor of lists."`
	Time     time.Time `json:"time"`
	Actor    string    `json:"actor" doc:"User; empty where nobody was recognised."`
	Verb     string    `json:"verb"`
	Kind     Kind      `json:"kind"`
	Project  string    `json:"project,omitempty"`
	Name     string    `json:"name"`
	ID       string    `json:"id,omitempty"`
	Before   string    `json:"before,omitempty" doc:"JSON"`
	After    string    `json:"after,omitempty" doc:"JSON"`
	RemoteIP string    `json:"remoteIp,omitempty"`
	Outcome  string    `json:"outcome" doc:"ok or the reason of the refusal."`
	Token    string    `json:"token,omitempty" doc:"Id of the token that was used; never the token."`
	Session  string    `json:"session,omitempty" doc:"Id of the browser's session, where there was one instead."`
	Request  string    `json:"request,omitempty" doc:"Id of the request, as in the answer's Fermi-Request header and the server's log."`
	Detail   string    `json:"detail,omitempty" doc:"JSON: what else is known, such as the path of an output or the task that got a secret."`
	// Count and Since make one entry stand for many alike.
	Count int64     `json:"count,omitempty" doc:"This entry stands for so many alike, from since to time; one when absent."`
	Since time.Time `json:"since,omitzero"`
	// The chain; absent on entries that are older than it.
	Number int64  `json:"number,omitempty" doc:"Place in the chain: 1, 2, 3 without a gap."`
	Prev   string `json:"prev,omitempty" doc:"Hash of the entry before, hexadecimal."`
	Hash   string `json:"hash,omitempty" doc:"SHA-256 over prev, number and everything above but seq."`
}

// AuditAnchor is where the chain begins: entries that were there before it, and what they were together.
type AuditAnchor struct {
	Rows int64     `json:"rows" doc:"Entries that are older than the chain."`
	Hash string    `json:"hash" doc:"Of those entries; prev of the chain's first one."`
	Time time.Time `json:"time"`
}

// AuditHead is the newest entry of the chain.
type AuditHead struct {
	Anchor AuditAnchor `json:"anchor"`
	Number int64       `json:"number"`
	Hash   string      `json:"hash"`
}

// NoAuditHash is what stands before everything.
var NoAuditHash = strings.Repeat("0", 2*sha256.Size)

// maxAuditText bounds one text of an entry, in bytes.
const maxAuditText = 1 << 20

// AuditText is a text as an audit keeps it: UTF-8 without NUL, of bounded length. Every store and every
// export keeps such texts as they are, so that a hash can be made again from any of them.
func AuditText(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
	if len(s) > maxAuditText {
		s = strings.ToValidUTF8(s[:maxAuditText], "")
	}
	return s
}

// Digest is the SHA-256 of what the entry says, without its place. A field that is empty does not count, so
// that later versions may add fields.
func (e *AuditEntry) Digest() [sha256.Size]byte {
	b := []byte("fermi audit 1")
	add := func(name, value string) {
		if value == "" {
			return
		}
		for _, s := range []string{name, value} {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	add("time", strconv.FormatInt(e.Time.Unix(), 10)+"."+strconv.Itoa(e.Time.Nanosecond()))
	for _, f := range []struct{ name, value string }{
		{"actor", e.Actor}, {"verb", e.Verb}, {"kind", string(e.Kind)}, {"project", e.Project}, {"name", e.Name}, {"id", e.ID},
		{"before", e.Before}, {"after", e.After}, {"remoteIp", e.RemoteIP}, {"outcome", e.Outcome}, {"token", e.Token},
		{"session", e.Session}, {"request", e.Request}, {"detail", e.Detail},
	} {
		add(f.name, AuditText(f.value))
	}
	if e.Count != 0 {
		add("count", strconv.FormatInt(e.Count, 10))
	}
	if !e.Since.IsZero() {
		add("since", strconv.FormatInt(e.Since.Unix(), 10)+"."+strconv.Itoa(e.Since.Nanosecond()))
	}
	return sha256.Sum256(b)
}

// Link gives the entry its place behind the one with this number and hash.
func (e *AuditEntry) Link(number int64, prev string) {
	e.Number, e.Prev = number+1, prev
	e.Hash = chainHash(prev, e.Number, e.Digest())
}

// chainHash is SHA-256 over prev (32 bytes), the number (8 bytes, big-endian) and the digest. It is simple, so
// that a database can make it too.
func chainHash(prev string, number int64, digest [sha256.Size]byte) string {
	raw, _ := hex.DecodeString(prev) // a bad one gives a hash that nothing has
	raw = append(binary.BigEndian.AppendUint64(raw, uint64(number)), digest[:]...)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// RollAudit adds an entry that is older than the chain to the hash of those before it.
func RollAudit(hash string, e *AuditEntry) string {
	return chainHash(hash, 0, e.Digest())
}

// AuditChain checks entries one by one, oldest first. The zero value knows no anchor: the chain begins with
// the first entry it is given. It needs no memory of what it has seen.
type AuditChain struct {
	// Gaps lets entries be missing: each is checked by itself, and against its neighbour where that is there.
	Gaps bool
	// Records and Older count what was seen: entries of the chain, and those before it.
	Records, Older int64
	// Missing counts entries that Gaps let pass.
	Missing int64
	// Number and Hash are the last entry's.
	Number int64
	Hash   string

	anchor *AuditAnchor
	rolled string
}

// Begin says where the chain begins.
func (c *AuditChain) Begin(a AuditAnchor) {
	c.anchor, c.rolled, c.Hash = &a, NoAuditHash, a.Hash
}

// Add checks the next entry. The fault (Conflict, reason BrokenChain) names the first entry that is not as it
// was written, or not where it belongs.
func (c *AuditChain) Add(e *AuditEntry) error {
	if e.Hash == "" && e.Number == 0 && c.Number == 0 && (c.anchor == nil || c.Older < c.anchor.Rows) {
		if c.anchor != nil {
			c.rolled = RollAudit(c.rolled, e)
		}
		c.Older++
		return nil
	}
	if e.Hash == "" || e.Number <= 0 {
		return brokenChain(e, "carries no hash: it was written past the chain, by an older server or by hand", "没有哈希：由旧版服务器或人工绕过哈希链写入")
	}
	if c.Number == 0 {
		if err := c.start(e); err != nil {
			return err
		}
	}
	switch next := c.Number + 1; {
	case e.Number < next && c.Number > 0:
		return brokenChain(e, "stands behind record %d: it was moved or repeated", "位于第 %d 条之后：顺序被改动或重复", c.Number)
	case e.Number > next && (c.Number > 0 || c.anchor != nil) && !c.Gaps:
		return missingRecords(next, e.Number-1)
	case e.Number > next:
		c.Missing += e.Number - next
	case c.Hash != "" && e.Prev != c.Hash:
		return brokenChain(e, "does not follow from record %d: one of the two was replaced", "与第 %d 条不衔接：其中一条已被替换", c.Number)
	}
	if e.Hash != chainHash(e.Prev, e.Number, e.Digest()) {
		return brokenChain(e, "is not what was written: its hash does not fit", "与写入时不符：哈希不匹配")
	}
	c.Number, c.Hash = e.Number, e.Hash
	c.Records++
	return nil
}

// start judges what came before the chain.
func (c *AuditChain) start(e *AuditEntry) error {
	if c.anchor == nil {
		c.Number, c.Hash = e.Number-1, e.Prev
		return nil
	}
	return c.checkAnchor()
}

func (c *AuditChain) checkAnchor() error {
	if c.anchor == nil || c.Gaps || c.Older == c.anchor.Rows && c.rolled == c.anchor.Hash {
		return nil
	}
	return fault.New(fault.Conflict, "BrokenChain", fault.T(
		"The records before the chain are not those that were there when it began: there were %d, there are %d, or one of them was changed.",
		"哈希链之前的记录与建链时不一致：当时有 %d 条，现有 %d 条，或其中有记录被改动。", c.anchor.Rows, c.Older))
}

// End checks that the last entry is the newest one that was written.
func (c *AuditChain) End(head AuditHead) error {
	if c.Number == 0 {
		if err := c.checkAnchor(); err != nil {
			return err
		}
	}
	switch {
	case c.Number > head.Number:
		return fault.New(fault.Conflict, "BrokenChain", fault.T(
			"There are %d records, but the last one written is %d: the head of the chain was set back.", "现有 %d 条记录，但最后写入的是第 %d 条：链头被回退。", c.Number, head.Number))
	case c.Number < head.Number && c.Gaps:
		c.Missing += head.Number - c.Number
		return nil
	case c.Number < head.Number:
		return missingRecords(c.Number+1, head.Number)
	case c.Number > 0 && c.Hash != head.Hash:
		return fault.New(fault.Conflict, "BrokenChain", fault.T("Record %d is not the one that was written last.", "第 %d 条不是最后写入的记录。", c.Number))
	}
	return nil
}

func brokenChain(e *AuditEntry, en, zh string, args ...any) error {
	at := fault.T("Record %d (seq %d, %s)", "第 %d 条记录（seq %d，%s）", e.Number, e.Seq, e.Time.UTC().Format(time.RFC3339))
	why := fault.T(en, zh, args...)
	return fault.New(fault.Conflict, "BrokenChain", fault.Text{EN: at.EN + " " + why.EN + ".", ZH: at.ZH + why.ZH + "。"})
}

func missingRecords(from, to int64) error {
	if from == to {
		return fault.New(fault.Conflict, "BrokenChain", fault.T("Record %d is missing.", "第 %d 条记录缺失。", from))
	}
	return fault.New(fault.Conflict, "BrokenChain", fault.T("Records %d to %d are missing.", "第 %d 至 %d 条记录缺失。", from, to))
}
