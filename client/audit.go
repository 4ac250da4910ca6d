package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// AuditOptions select entries of the audit; what is empty selects nothing.
type AuditOptions struct {
	Project, Actor, Verb, Kind, Name, Outcome, IP, Token, Request string
	Since, Until                                                  time.Time
	Limit                                                         int // of a list; 100 when 0
}

func (o AuditOptions) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"project": o.Project, "actor": o.Actor, "verb": o.Verb, "kind": o.Kind, "name": o.Name, "outcome": o.Outcome, "ip": o.IP, "token": o.Token, "request": o.Request,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": o.Since, "until": o.Until} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return q
}

// Audit lists who asked for what, newest first.
func (c operation) Audit(ctx context.Context, o AuditOptions) ([]api.AuditEntry, error) {
	all, q := []api.AuditEntry{}, o.query()
	want := o.Limit
	if want <= 0 {
		want = 100
	}
	for len(all) < want {
		q.Set("limit", strconv.Itoa(min(want-len(all), 1000)))
		var page struct {
			Items []api.AuditEntry `json:"items"`
			Next  int64            `json:"next"`
		}
		if err := c.wire.read(ctx, "/audit", q, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == 0 || len(page.Items) == 0 {
			break
		}
		q.Set("before", strconv.FormatInt(page.Next, 10))
	}
	return all, nil
}

// ExportAudit opens the audit as JSON lines; the caller closes it. A stream cut short ends with an error other
// than io.EOF.
func (c operation) ExportAudit(ctx context.Context, o AuditOptions) (io.ReadCloser, error) {
	resp, err := c.wire.send(ctx, request{method: http.MethodGet, path: "/audit/export", query: o.query()})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// maxAuditLine bounds one line of an export, in bytes.
const maxAuditLine = 8 << 20

// AuditReport is what VerifyAudit found.
type AuditReport struct {
	Records int64         `json:"records" doc:"Of the chain."`
	Older   int64         `json:"older,omitempty" doc:"From before the chain."`
	Missing int64         `json:"missing,omitempty" doc:"Left out of a partial export."`
	Partial bool          `json:"partial,omitempty"`
	Head    api.AuditHead `json:"head" doc:"The newest record when the export began."`
	// Kept says that the record asked for was found, with its hash.
	Kept bool `json:"kept,omitempty"`
}

// VerifyAudit reads an export and checks every record and its place. The fault names the first that is broken,
// missing or moved. partial lets an export of some records pass, each by itself. keep, with a number, is a
// record that must be among them: what an operator wrote down earlier, so that not even the whole chain can be
// written anew.
func VerifyAudit(r io.Reader, partial bool, keep api.AuditHead) (out AuditReport, err error) {
	chain := api.AuditChain{Gaps: partial}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxAuditLine)
	begun, ended, n := false, false, 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var mark struct {
			Audit   string           `json:"audit"`
			Anchor  *api.AuditAnchor `json:"anchor"`
			Partial bool             `json:"partial"`
			Head    *api.AuditHead   `json:"head"`
			api.AuditEntry
		}
		if err := json.Unmarshal(line, &mark); err != nil {
			return out, badExport(n, err)
		}
		switch {
		case ended:
			return out, badExport(n, errors.New("a line behind the end"))
		case mark.Audit == "begin" && mark.Anchor != nil && !begun:
			if mark.Partial && !partial {
				return out, fault.New(fault.Invalid, "PartialExport", fault.T("This export holds some records only, so that nobody can tell whether one is missing.", "该导出只包含部分记录，无法判断是否有缺失。")).
					WithHint(fault.T("Verify a whole export, or give --partial to check each record by itself.", "请校验完整导出，或使用 --partial 逐条校验。"))
			}
			begun, out.Partial = true, mark.Partial
			chain.Begin(*mark.Anchor)
		case mark.Audit == "end" && mark.Head != nil && begun:
			ended, out.Head = true, *mark.Head
		case mark.Audit != "" || !begun:
			return out, badExport(n, errors.New("no record"))
		default:
			e := mark.AuditEntry
			if err := chain.Add(&e); err != nil {
				return out, err
			}
			if keep.Number > 0 && e.Number == keep.Number {
				out.Kept = e.Hash == keep.Hash
			}
		}
	}
	if err := lines.Err(); err != nil {
		var known *fault.Error
		if errors.As(err, &known) {
			return out, err
		}
		return out, badExport(n+1, err)
	}
	if !ended {
		return out, badExport(n+1, errors.New("it was cut off"))
	}
	err = chain.End(out.Head)
	out.Records, out.Older, out.Missing = chain.Records, chain.Older, chain.Missing
	if err == nil && keep.Number > 0 && !out.Kept {
		err = fault.New(fault.Conflict, "BrokenChain", fault.T(
			"Record %d is not there with the hash %s: the chain was written anew.", "第 %d 条记录的哈希不是 %s：哈希链已被重写。", keep.Number, keep.Hash))
	}
	return out, err
}

func badExport(line int, cause error) error {
	return fault.New(fault.Invalid, "BadExport", fault.T(
		"This is not a whole export of an audit: line %d can't be used (%v).", "这不是完整的审计导出：第 %d 行无法使用（%v）。", line, cause)).Because(cause)
}
