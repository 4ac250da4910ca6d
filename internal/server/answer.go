package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// reply is a good answer.
type reply struct {
	message  fault.Text
	data     any
	revision int64 // sent as Fermi-Revision when not zero
}

// envelope is the shape of every good JSON answer.
type envelope struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// refusal is the shape of every bad one.
type refusal struct {
	Code      int            `json:"code" doc:"The HTTP status."`
	Reason    string         `json:"reason" doc:"Machine-readable and stable."`
	Message   string         `json:"message" doc:"For people, in the language of Accept-Language."`
	Hint      string         `json:"hint,omitempty" doc:"What to do about it."`
	Fields    []refusedField `json:"fields,omitempty"`
	Retryable bool           `json:"retryable" doc:"The same call may work later."`
}

type refusedField struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

var textOK = fault.T("OK", "成功")

func (c *call) answer(r *reply) {
	message := r.message
	if message.IsZero() {
		message = textOK
	}
	if r.revision > 0 {
		c.w.Header().Set("Fermi-Revision", strconv.FormatInt(r.revision, 10))
	}
	body, err := encode(envelope{Code: http.StatusOK, Message: message.In(c.lang), Data: r.data})
	if err != nil {
		c.refuse(fault.From(err))
		return
	}
	c.send(http.StatusOK, body)
}

func refusalOf(e *fault.Error, status int, lang string) refusal {
	out := refusal{
		Code: status, Reason: e.Reason, Message: e.Message.In(lang), Hint: e.Hint.In(lang), Retryable: e.Code.Retry(),
	}
	for _, f := range e.Fields {
		out.Fields = append(out.Fields, refusedField{Path: f.Path, Message: f.Message.In(lang)})
	}
	return out
}

func (c *call) refuse(e *fault.Error) { c.refuseAs(e, e.Code.HTTP()) }

func (c *call) refuseAs(e *fault.Error, status int) {
	if e.RetryAfter > 0 {
		seconds := int64((e.RetryAfter + time.Second - 1) / time.Second)
		c.w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if e.Code == fault.Unauthenticated {
		c.w.Header().Set("WWW-Authenticate", `Bearer realm="fermi"`)
	}
	body, err := encode(refusalOf(e, status, c.lang))
	if err != nil { // strings always encode
		body = []byte(`{"code":500,"reason":"Internal","message":"","retryable":false}`)
	}
	c.send(status, body)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (c *call) send(status int, body []byte) {
	c.status = status
	h := c.w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_ = c.rc.SetWriteDeadline(time.Now().Add(c.stall)) // a long upload may have used it up
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // the client's loss
}

// language picks zh or en from Accept-Language by the largest weight, the first of equals; English
// when neither is asked for.
func language(header string) string {
	best, weight := "en", 0.0
	if len(header) > 1024 {
		header = header[:1024]
	}
	for part := range strings.SplitSeq(header, ",") {
		tag, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		q := 1.0
		if v, ok := strings.CutPrefix(strings.TrimSpace(params), "q="); ok {
			parsed, err := strconv.ParseFloat(v, 64)
			if err != nil || parsed < 0 || parsed > 1 {
				continue
			}
			q = parsed
		}
		primary, _, _ := strings.Cut(strings.ToLower(tag), "-")
		if (primary == "zh" || primary == "en") && q > weight {
			best, weight = primary, q
		}
	}
	return best
}
