package gateway

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

var errNoRoute = fault.New(fault.NotFound, "UnknownRoute", fault.T("There is nothing here: use /inference/NAME/… or /v1/….", "路径不存在：请使用 /inference/NAME/… 或 /v1/…。"))

// noService is the answer for what does not exist, and for what the caller may not see.
func noService(name string) *fault.Error {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return fault.New(fault.NotFound, "NoService", fault.T("There is no service %q.", "服务 %q 不存在。", name)).
		WithHint(fault.T("List those that you may ask: fermi service list, or GET /v1/models.", "查看可用服务：fermi service list，或 GET /v1/models。"))
}

// refusal is the shape of all that the gateway refuses: the API's own, and beside it what OpenAI's clients look for.
type refusal struct {
	Code      int     `json:"code"`
	Reason    string  `json:"reason"`
	Message   string  `json:"message"`
	Hint      string  `json:"hint,omitempty"`
	Retryable bool    `json:"retryable"`
	Fields    []wrong `json:"fields,omitempty"` // of the question
	Error     struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"`
		Param   string `json:"param,omitempty"`
	} `json:"error"`
}

// wrong is a field that is not as it must be.
type wrong struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// refusalOf is what is said instead of an answer, and its status.
func refusalOf(r *http.Request, e *fault.Error) (status int, body []byte) {
	status = e.Code.HTTP()
	lang := "en"
	if strings.HasPrefix(strings.ToLower(r.Header.Get("Accept-Language")), "zh") {
		lang = "zh"
	}
	out := refusal{Code: status, Reason: e.Reason, Message: e.Message.In(lang), Hint: e.Hint.In(lang), Retryable: e.Code.Retry()}
	out.Error.Message, out.Error.Code, out.Error.Type = out.Message, e.Reason, "invalid_request_error"
	for _, f := range e.Fields {
		out.Fields = append(out.Fields, wrong{f.Path, f.Message.In(lang)})
		out.Error.Param = cmp.Or(out.Error.Param, f.Path)
	}
	switch {
	case status == http.StatusUnauthorized:
		out.Error.Type = "authentication_error"
	case status == http.StatusTooManyRequests:
		out.Error.Type = "rate_limit_error"
	case status >= 500:
		out.Error.Type = "server_error"
	}
	body, _ = json.Marshal(out) // strings and numbers: it can't fail
	return status, body
}

// refuse answers instead of a service.
func refuse(w http.ResponseWriter, r *http.Request, err error) int {
	e := fault.From(err)
	status, body := refusalOf(r, e)
	h := w.Header()
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="fermi"`)
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client's loss
	return status
}
