// Package online is what the commands of a kind of work share: who is asked, in which project and language.
//
// Place: layer 5, on cli. Promise: each asks, reads amounts and variables, and waits in the same way and words. Enemies: a
// kind whose commands say the same differently.
package online

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Where is who is asked, and in which project and language.
type Where struct {
	*client.Client
	Project, Lang string
	Cmd           *cobra.Command
}

// Dial reads it from the flags and the settings of a command.
func Dial(cmd *cobra.Command) (Where, error) {
	c, err := cli.Dial(cmd)
	return Where{c, cli.Project(cmd), cli.Language(cmd), cmd}, err
}

// Say tells people something, beside the data.
func (w *Where) Say(en, zh string, args ...any) {
	fmt.Fprintln(w.Cmd.ErrOrStderr(), fault.T(en, zh, args...).In(w.Lang))
}

// Structured says that a program reads the answer, as JSON or YAML.
func (w *Where) Structured() bool { o := Output(w.Cmd); return o == "json" || o == "yaml" }

// Answer writes data for a program.
func (w *Where) Answer(v any) error { return cli.Data(w.Cmd, v) }

// Output is the format that a command was asked for: table, wide, json, yaml or name.
func Output(cmd *cobra.Command) string {
	return cmd.Root().PersistentFlags().Lookup("output").Value.String()
}

// IsTable says that people read the answer.
func IsTable(cmd *cobra.Command) bool {
	o := Output(cmd)
	return o == "" || o == "table" || o == "wide"
}

// Plainly is `fermi get` with a kind and names: for -o json, yaml and name.
func Plainly(cmd *cobra.Command, args ...string) error {
	get, _, err := cmd.Root().Find([]string{"get"})
	if err != nil {
		return err
	}
	get.SetContext(cmd.Context())
	return get.RunE(get, args)
}

// Amount reads a quantity as a manifest has it, from a flag; "" is none.
func Amount(flag, text string, into json.Unmarshaler) error {
	if text == "" {
		return nil
	}
	quoted, err := json.Marshal(text)
	if err == nil {
		err = into.UnmarshalJSON(quoted)
	}
	if err != nil {
		return wrong("--"+flag, fault.T("%q is no amount; write it as 500m, 4 or 16Gi.", "%q 不是合法的数量；应写作 500m、4 或 16Gi。", text))
	}
	return nil
}

func wrong(flag string, why fault.Text) error {
	return fault.New(fault.Invalid, "Usage", why).WithFields(fault.Field{Path: flag, Message: why})
}

// All is everything that is wrong with a command line, said at once; nil: nothing is.
func All(errs ...error) error {
	var fields []fault.Field
	for _, err := range errs {
		if err != nil {
			fields = append(fields, fault.From(err).Fields...)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "Usage", fault.T("The command line has %d [mistake|mistakes].", "命令行参数有 %d 处错误。", len(fields))).WithFields(fields...)
}

// ByFlag is a refusal of the server in the words of the command line; flags turns fields into what people gave.
func ByFlag(err error, flags *strings.Replacer) error {
	var refused *fault.Error
	if !errors.As(err, &refused) || len(refused.Fields) == 0 {
		return err
	}
	text := func(t fault.Text) fault.Text { return fault.Text{EN: flags.Replace(t.EN), ZH: flags.Replace(t.ZH)} }
	out := *refused
	out.Fields = make([]fault.Field, len(refused.Fields))
	for i, f := range refused.Fields {
		out.Fields[i] = fault.Field{Path: flags.Replace(f.Path), Message: f.Message}
	}
	out.Message, out.Hint = text(refused.Message), text(refused.Hint)
	return &out
}

// Variables reads a list of NAME=VALUE.
func Variables(list []string, each func(name, value string)) error {
	for _, kv := range list {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			return wrong("--env", fault.T("A variable is written NAME=VALUE, not %q.", "环境变量应写作 NAME=VALUE，而不是 %q。", kv))
		}
		each(name, value)
	}
	return nil
}

// Until reads something again and again until it is so, or can't be.
func Until[T any](ctx context.Context, every time.Duration, get func() (T, error), ok func(T) (bool, error)) error {
	for {
		now, err := get()
		if err != nil {
			return err
		}
		if done, err := ok(now); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-time.After(every):
		}
	}
}
