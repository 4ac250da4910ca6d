package usage

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fermi-cluster/fermi/internal/cli/near"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// unknownCommand says what args[0] is called here, or what is near it.
func unknownCommand(cmd *cobra.Command, args []string) error {
	err := fault.From(Wrong(cmd, fault.T("There is no command %q in `%s`.", "`%[2]s` 中没有命令 %[1]q。", args[0], cmd.CommandPath())))
	if lines := calledHere(cmd.CommandPath(), args); len(lines) > 0 {
		return err.WithHint(fault.T("Did you mean: %s?", "是否想输入：%s？", strings.Join(lines, ", ")))
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		for i := range near {
			near[i] = cmd.CommandPath() + " " + near[i]
		}
		return err.WithHint(fault.T("Did you mean: %s?", "是否想输入：%s？", strings.Join(near, ", ")))
	}
	return err
}

// calledHere are the command lines for what was typed.
func calledHere(path string, args []string) (lines []string) {
	word := strings.ToLower(args[0])
	for _, row := range near.Words[path] {
		words, meant, _ := strings.Cut(row, " = ")
		if !slices.Contains(strings.Fields(words), word) {
			continue
		}
		for line := range strings.SplitSeq(meant, "; ") {
			if own, ok := strings.CutPrefix(line, "fermi "); ok {
				line = "fermi " + own
			} else {
				line = path + " " + line
			}
			lines = append(lines, withRest(line, args))
		}
		return lines
	}
	return nil
}

// withRest puts what followed the word where the line takes it.
func withRest(line string, args []string) string {
	head, takes := strings.CutSuffix(line, "…")
	rest := args[1:]
	switch args[0] {
	case "python", "python3", "torchrun": // the command itself was typed
		rest = args
	case "drain", "cordon", "uncordon":
		rest = args
	}
	if takes && len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if takes && len(rest) > 0 {
		return head + show.Quote(rest)
	}
	if takes {
		return head + "COMMAND"
	}
	for _, slot := range []string{" NAME", " TASK", " NODE"} { // a name that was typed is put in
		if head, ok := strings.CutSuffix(line, slot); ok && len(args) == 2 {
			return head + " " + show.Quote(args[1:])
		}
	}
	return line
}

// BadFlags says what is wrong with flags, and what an unknown one is called here.
func BadFlags(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return Wrong(cmd, fault.T("The command line has a mistake: %s.", "命令行参数有误：%s。", err))
	}
	// `fermi run --gpus 2 …`: the flag is not the mistake.
	if typed := cmd.Flags().Args(); cmd.HasSubCommands() && len(typed) > 0 {
		if len(typed) > 1 {
			typed = append(typed, "…") // and what was not read
		}
		return unknownCommand(cmd, typed)
	}
	name := unknown.GetSpecifiedName()
	dash := "--"
	if len(name) == 1 {
		dash = "-"
	}
	wrong := fault.From(Wrong(cmd, fault.T("`%s` has no flag %s.", "`%s` 没有参数 %s。", cmd.CommandPath(), dash+name)))
	if near := nearFlags(cmd, name); len(near) > 0 {
		return wrong.WithHint(fault.T("Did you mean: %s? All are in `%s --help`.", "是否想输入：%s？全部参数见 `%s --help`。", strings.Join(near, ", "), cmd.CommandPath()))
	}
	return wrong
}

// nearFlags are those of the command that a name may stand for: by the table, then by their letters.
func nearFlags(cmd *cobra.Command, name string) (found []string) {
	if own := near.Flags[name]; own != "" && cmd.Flag(own) != nil {
		return []string{"--" + own}
	}
	if len(name) < 3 {
		return nil
	}
	see := func(f *pflag.Flag) {
		if !f.Hidden && (near.Distance(f.Name, name) <= 2 || strings.HasPrefix(f.Name, name)) && !slices.Contains(found, "--"+f.Name) {
			found = append(found, "--"+f.Name)
		}
	}
	cmd.Flags().VisitAll(see)
	cmd.InheritedFlags().VisitAll(see)
	slices.Sort(found)
	return found[:min(len(found), 3)]
}
