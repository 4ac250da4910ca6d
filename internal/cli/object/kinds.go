package object

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// KindOf finds a kind by any of its words, in any case.
func KindOf(word string) (api.KindInfo, error) {
	w := strings.ToLower(word)
	for _, row := range api.Kinds {
		words := append([]string{row.Singular, row.Singular + "s", row.Plural, strings.ToLower(string(row.Kind))}, row.Aliases...)
		if slices.Contains(words, w) {
			return row, nil
		}
	}
	list := strings.Join(kindWords(), ", ")
	return api.KindInfo{}, fault.New(fault.Invalid, "UnknownKind", fault.T(
		"There is no kind %q; there are: %s.", "没有 %q 这种对象；可用的有：%s。", word, list))
}

func kindWords() []string {
	words := make([]string, len(api.Kinds))
	for i, row := range api.Kinds {
		words[i] = row.Singular
	}
	return words
}

// kindAndNames reads "KIND NAME…" and "KIND/NAME…".
func kindAndNames(args []string) (api.KindInfo, []string, error) {
	word, name, slash := strings.Cut(args[0], "/")
	info, err := KindOf(word)
	if err != nil {
		return info, nil, err
	}
	names := args[1:]
	if slash {
		names = append([]string{name}, names...)
	}
	return info, names, nil
}

// completeKinds offers the kinds as the first argument.
func completeKinds(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return kindWords(), cobra.ShellCompDirectiveNoFileComp
}
