package rest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Reply is a good answer.
type Reply struct {
	Message  fault.Text
	Data     any
	Revision int64 // sent as Fermi-Revision when not zero
}

// envelope is the shape of every good JSON answer.
type envelope struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// Refusal is the shape of every bad one.
type Refusal struct {
	Code      int            `json:"code" doc:"The HTTP status."`
	Reason    string         `json:"reason" doc:"Machine-readable and stable."`
	Message   string         `json:"message" doc:"For people, in the language of Accept-Language."`
	Hint      string         `json:"hint,omitempty" doc:"What to do about it."`
	Fields    []RefusedField `json:"fields,omitempty"`
	Retryable bool           `json:"retryable" doc:"The same call may work later."`
}

type RefusedField struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

var textOK = fault.T("OK", "成功")

func (c *Call) Answer(r *Reply) {
	message := r.Message
	if message.IsZero() {
		message = textOK
	}
	if r.Revision > 0 {
		c.W.Header().Set("Fermi-Revision", strconv.FormatInt(r.Revision, 10))
	}
	body, err := Encode(envelope{Code: http.StatusOK, Message: message.In(c.Lang), Data: r.Data})
	if err != nil {
		c.Refuse(fault.From(err))
		return
	}
	c.Send(http.StatusOK, body)
}

func RefusalOf(e *fault.Error, status int, lang string) Refusal {
	out := Refusal{
		Code: status, Reason: e.Reason, Message: e.Message.In(lang), Hint: e.Hint.In(lang), Retryable: e.Code.Retry(),
	}
	for _, f := range e.Fields {
		out.Fields = append(out.Fields, RefusedField{Path: f.Path, Message: f.Message.In(lang)})
	}
	return out
}

func (c *Call) Refuse(e *fault.Error) { c.RefuseAs(e, e.Code.HTTP()) }

func (c *Call) RefuseAs(e *fault.Error, status int) {
	if e.RetryAfter > 0 {
		seconds := int64((e.RetryAfter + time.Second - 1) / time.Second)
		c.W.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if e.Code == fault.Unauthenticated {
		c.W.Header().Set("WWW-Authenticate", `Bearer realm="fermi"`)
	}
	body, err := Encode(RefusalOf(e, status, c.Lang))
	if err != nil { // strings always encode
		body = []byte(`{"code":500,"reason":"Internal","message":"","retryable":false}`)
	}
	c.Send(status, body)
}

func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (c *Call) Send(status int, body []byte) {
	c.Status = status
	h := c.W.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_ = c.Control.SetWriteDeadline(time.Now().Add(c.stall)) // a long upload may have used it up
	c.W.WriteHeader(status)
	_, _ = c.W.Write(body) // the client's loss
}

// Language picks zh or en from Accept-Language by the largest weight, the first of equals; English
// when neither is asked for.
func Language(header string) string {
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

// JSONText is a value as JSON; "" where it has no such form.
func JSONText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}
