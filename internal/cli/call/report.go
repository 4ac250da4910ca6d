package call

import (
	"errors"
	"fmt"
	"io"

	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Exit ends the process with a code and nothing more to say.
type Exit struct{ Code int }

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// ExitCode is the code to end with.
func (e Exit) ExitCode() int { return e.Code }

// Report prints the error for people and picks the exit code.
func Report(w io.Writer, err error, lang string) int {
	var coded interface{ ExitCode() int }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.ExitCode()
	}
	e := fault.From(err)
	word, hint, cause := fault.T("error", "错误"), fault.T("hint", "提示"), fault.T("cause", "原因")
	sep := ": "
	if speech.IsChinese(lang) {
		sep = "："
	}
	message := show.Clean(e.Message.In(lang))
	fmt.Fprintf(w, "%s%s%s\n", word.In(lang), sep, message)
	for _, f := range e.Fields {
		// A server that refuses one field says it in its message.
		if path, said := show.Clean(f.Path), show.Clean(f.Message.In(lang)); said != message && path+sep+said != message && path+": "+said != message {
			fmt.Fprintf(w, "  %s: %s\n", path, said)
		}
	}
	if e.Code == fault.Internal && e.Unwrap() != nil {
		fmt.Fprintf(w, "  %s%s%s\n", cause.In(lang), sep, show.Clean(e.Unwrap().Error()))
	}
	if !e.Hint.IsZero() {
		fmt.Fprintf(w, "  %s%s%s\n", hint.In(lang), sep, show.Clean(e.Hint.In(lang)))
	}
	return e.Code.Exit()
}
