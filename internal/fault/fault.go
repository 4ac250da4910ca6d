package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Code is the class of a failure. The set is closed: see codes.
type Code string

// The codes. Reason, not Code, tells one failure of a class from another.
const (
	Invalid         Code = "Invalid"         // the request can never succeed as it is
	Unauthenticated Code = "Unauthenticated" // who are you?
	Forbidden       Code = "Forbidden"       // known, but not allowed
	NotFound        Code = "NotFound"
	Conflict        Code = "Conflict"    // somebody was faster, or the name is taken
	TooLarge        Code = "TooLarge"    // more bytes than the door lets in
	BadRange        Code = "BadRange"    // bytes that are not there
	BadMedia        Code = "BadMedia"    // a body of a type the door does not take
	TooMany         Code = "TooMany"     // slower, please: RetryAfter says how much
	Full            Code = "Full"        // disk or store quota is used up
	Unavailable     Code = "Unavailable" // a part is away; the same call may work later
	Timeout         Code = "Timeout"
	Internal        Code = "Internal" // our mistake
)

type codeRow struct {
	http, exit int
	retry      bool
}

var codes = map[Code]codeRow{
	Invalid:         {400, 2, false},
	Unauthenticated: {401, 4, false},
	Forbidden:       {403, 4, false},
	NotFound:        {404, 5, false},
	Conflict:        {409, 6, false},
	TooLarge:        {413, 2, false},
	BadRange:        {416, 2, false},
	BadMedia:        {415, 2, false},
	TooMany:         {429, 7, true},
	Full:            {507, 7, false},
	Unavailable:     {503, 7, true},
	Timeout:         {504, 7, true},
	Internal:        {500, 70, false},
}

// HTTP is the status a server answers with.
func (c Code) HTTP() int {
	if row, ok := codes[c]; ok {
		return row.http
	}
	return 500
}

// Exit is the exit code of a command that ended with this failure.
func (c Code) Exit() int {
	if row, ok := codes[c]; ok {
		return row.exit
	}
	return 70
}

// Retry says whether the same call may work later without being changed.
func (c Code) Retry() bool { return codes[c].retry }

// CodeOfHTTP is the code that answers with this status; Internal when none does.
func CodeOfHTTP(status int) Code {
	for code, row := range codes {
		if row.http == status {
			return code
		}
	}
	return Internal
}

// Text is one sentence in the two languages we speak.
type Text struct {
	EN string `json:"en,omitempty"`
	ZH string `json:"zh,omitempty"`
}

// T formats a Text; the same arguments fill both languages in the same order, and one that is a Text itself fills each with its own.
// In English "%d [node|nodes]" agrees with its number.
func T(en, zh string, args ...any) Text {
	if len(args) == 0 {
		return Text{EN: en, ZH: zh}
	}
	return Text{EN: fmt.Sprintf(agree(en, args), speaking("en", args)...), ZH: fmt.Sprintf(zh, speaking("zh", args)...)}
}

// speaking are arguments of which none is in two languages.
func speaking(lang string, args []any) []any {
	isText := func(a any) bool { _, ok := a.(Text); return ok }
	if !slices.ContainsFunc(args, isText) {
		return args
	}
	out := slices.Clone(args)
	for i, a := range out {
		if t, ok := a.(Text); ok {
			out[i] = t.In(lang)
		}
	}
	return out
}

// In picks the language: "zh" or anything starting with it is Chinese, all else English.
func (t Text) In(lang string) string {
	if strings.HasPrefix(strings.ToLower(lang), "zh") && t.ZH != "" {
		return t.ZH
	}
	if t.EN == "" {
		return t.ZH
	}
	return t.EN
}

// between stands between the languages of a Text that had to become one string. No sentence holds it.
const between = "\x1f"

// Pack is a Text for a place that keeps one string, such as an exit record or a line of a log; Unpack reads it there.
func (t Text) Pack() string {
	if t.ZH == "" || t.ZH == t.EN {
		return t.EN
	}
	return t.EN + between + t.ZH
}

// Unpack is the Text that Pack wrote. Any other string is the same in both languages.
func Unpack(s string) Text {
	en, zh, two := strings.Cut(s, between)
	if !two {
		return Text{EN: s}
	}
	return Text{EN: en, ZH: zh}
}

// IsZero says that nothing was written.
func (t Text) IsZero() bool { return t.EN == "" && t.ZH == "" }

// Field is one refused field: where it is, what was wrong and what would be right.
type Field struct {
	Path    string `json:"path"`
	Message Text   `json:"message"`
}

// Error is what people see. The zero value is not useful; use New.
type Error struct {
	Code       Code
	Reason     string // machine-readable, CamelCase, stable: "NameTaken", "UnknownField"
	Message    Text
	Hint       Text // what to do about it, where we know
	Fields     []Field
	RetryAfter time.Duration
	cause      error
}

// New makes an error. Give the message without its cause; attach that with Because.
func New(code Code, reason string, message Text) *Error {
	return &Error{Code: code, Reason: reason, Message: message}
}

// Because attaches the cause, which is logged and never shown.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// WithHint attaches the way out.
func (e *Error) WithHint(hint Text) *Error {
	c := *e
	c.Hint = hint
	return &c
}

// WithFields attaches the refused fields.
func (e *Error) WithFields(fields ...Field) *Error {
	c := *e
	c.Fields = append(append([]Field(nil), e.Fields...), fields...)
	return &c
}

// Error is for logs: English, with the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Reason + ": " + e.Message.In("en"))
	for _, f := range e.Fields {
		b.WriteString("; " + f.Path + ": " + f.Message.In("en"))
	}
	if e.cause != nil {
		b.WriteString(": " + e.cause.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.cause }

// From makes any error one of ours: itself, a context's end, or Internal with it as the cause.
func From(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return New(Timeout, "Timeout", T("The operation took too long.", "操作超时。")).Because(err)
	case errors.Is(err, context.Canceled):
		return New(Unavailable, "Canceled", T("The operation was cancelled.", "操作已取消。")).Because(err)
	}
	return New(Internal, "Internal", T("Something went wrong on our side.", "系统内部错误。")).Because(err)
}

// CodeOf is the code of any error; "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return From(err).Code
}

// Is says whether err is of this code.
func Is(err error, code Code) bool { return err != nil && CodeOf(err) == code }

// ReasonOf is the reason of any error; "" for nil.
func ReasonOf(err error) string {
	if err == nil {
		return ""
	}
	return From(err).Reason
}
