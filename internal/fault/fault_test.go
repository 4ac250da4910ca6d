package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestCodes(t *testing.T) {
	seen := map[int]Code{}
	for code, row := range codes {
		if other, taken := seen[row.http]; taken {
			t.Errorf("%s and %s share the status %d", code, other, row.http)
		}
		seen[row.http] = code
		if code.HTTP() != row.http || code.Exit() != row.exit || code.Retry() != row.retry {
			t.Errorf("%s does not answer with its row", code)
		}
		if row.exit == 0 || row.exit == 1 {
			t.Errorf("%s exits with %d, which other things mean", code, row.exit)
		}
		if CodeOfHTTP(row.http) != code {
			t.Errorf("status %d is not %s again", row.http, code)
		}
	}
	if c := Code("?"); c.HTTP() != 500 || c.Exit() != 70 || c.Retry() || CodeOfHTTP(418) != Internal {
		t.Error("an unknown code is our mistake")
	}
}

func TestText(t *testing.T) {
	text := T("%d tasks", "%d 个任务", 3)
	for lang, want := range map[string]string{"zh": "3 个任务", "zh-CN": "3 个任务", "ZH": "3 个任务", "en": "3 tasks", "": "3 tasks", "fr": "3 tasks"} {
		if got := text.In(lang); got != want {
			t.Errorf("%q: %q", lang, got)
		}
	}
	if got := T("100%", "百分百").In("en"); got != "100%" {
		t.Errorf("without arguments nothing is formatted: %q", got)
	}
	if !(Text{}).IsZero() || text.IsZero() || (Text{ZH: "a"}).In("en") != "a" || (Text{EN: "a"}).In("zh") != "a" {
		t.Error("a missing language falls back to the other")
	}
}

func TestErrorCopies(t *testing.T) {
	base := New(NotFound, "NoTask", T("No task.", "没有任务。"))
	field := Field{Path: "a", Message: T("bad", "错")}
	full := base.Because(io.EOF).WithHint(T("Look again.", "请再查。")).WithFields(field).WithFields(field)
	if base.Unwrap() != nil || len(base.Fields) != 0 || !base.Hint.IsZero() {
		t.Error("the original was changed")
	}
	if !errors.Is(full, io.EOF) || len(full.Fields) != 2 {
		t.Error(full)
	}
	if got := full.Error(); got != "NoTask: No task.; a: bad; a: bad: EOF" {
		t.Error(got)
	}
}

func TestFrom(t *testing.T) {
	own := New(Conflict, "Stale", T("a", "b"))
	tests := []struct {
		err    error
		code   Code
		reason string
	}{
		{nil, "", ""},
		{own, Conflict, "Stale"},
		{fmt.Errorf("while writing: %w", own), Conflict, "Stale"},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), Timeout, "Timeout"},
		{context.Canceled, Unavailable, "Canceled"},
		{io.EOF, Internal, "Internal"},
	}
	for _, tc := range tests {
		if CodeOf(tc.err) != tc.code || ReasonOf(tc.err) != tc.reason {
			t.Errorf("%v: %s, %s", tc.err, CodeOf(tc.err), ReasonOf(tc.err))
		}
		if Is(tc.err, tc.code) != (tc.err != nil) {
			t.Errorf("Is(%v, %s)", tc.err, tc.code)
		}
	}
	if got := From(io.EOF).Message.In("en"); strings.Contains(got, "EOF") {
		t.Errorf("the cause is shown: %q", got)
	}
}

func TestPack(t *testing.T) {
	for _, text := range []Text{{}, {EN: "a"}, {EN: "a", ZH: "一"}, {EN: "a / b", ZH: "一 / 二"}} {
		if got := Unpack(text.Pack()); got != text {
			t.Errorf("%+v became %+v", text, got)
		}
	}
	if got := Unpack("plain"); got.In("zh") != "plain" {
		t.Errorf("%+v", got)
	}
}

func TestNumbersAgree(t *testing.T) {
	for _, c := range []struct {
		got  Text
		want string
	}{
		{T("%d [task is|tasks are] waiting", "%d", 1), "1 task is waiting"},
		{T("%d [task is|tasks are] waiting", "%d", 0), "0 tasks are waiting"},
		{T("%s: 100%% of %d [node|nodes], %d [rank|ranks]", "%s %d %d", "[a|b]", int64(1), uint8(2)), "[a|b]: 100% of 1 node, 2 ranks"},
		{T("%[2]d [node|nodes] of %[1]d [zone|zones]", "%d %d", 2, 1), "1 node of 2 zones"},
		{T("[s]top or [a|b] %d", "%d", 1), "[s]top or [a|b] 1"},
		{T("[a|b]", ""), "[a|b]"},
	} {
		if c.got.EN != c.want {
			t.Errorf("%q, not %q", c.got.EN, c.want)
		}
	}
}

// TestTextInText: an argument that is in two languages speaks each of them where it is said.
func TestTextInText(t *testing.T) {
	got := T("version %d of the %s %s", "%[2]s %[3]s 的版本 %[1]d", 3, T("model", "模型"), "net")
	if want := (Text{EN: "version 3 of the model net", ZH: "模型 net 的版本 3"}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}
