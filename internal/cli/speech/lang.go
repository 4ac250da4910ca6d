package speech

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Mark stands between the English and the Chinese form of a help text until the language is known.
const Mark = "\x1f"

// Both is a help text in the two languages, for Short, Long, Example and flags of commands under
// Root.
func Both(en, zh string) string { return en + Mark + zh }

// Language is the one to answer in: --lang, FERMI_LANG, LC_ALL, LC_MESSAGES, LANG; "zh" or "en".
func Language(cmd *cobra.Command) string {
	chosen := ""
	if f := cmd.Root().PersistentFlags().Lookup("lang"); f != nil {
		chosen = f.Value.String()
	}
	for _, name := range []string{"FERMI_LANG", "LC_ALL", "LC_MESSAGES", "LANG"} {
		if chosen != "" {
			break
		}
		chosen = os.Getenv(name)
	}
	if IsChinese(chosen) {
		return "zh"
	}
	return "en"
}

func IsChinese(lang string) bool { return strings.HasPrefix(strings.ToLower(lang), "zh") }

// headings are the words of cobra's own templates and commands.
var headings = strings.NewReplacer(
	"Usage:", "用法：", "Aliases:", "别名：", "Examples:", "示例：", "Available Commands:", "命令：", "Additional Commands:", "其他命令：",
	"Global Flags:", "全局参数：", "Flags:", "参数：",
	`Use "{{.CommandPath}} [command] --help" for more information about a command.`, `用 "{{.CommandPath}} [命令] --help" 查看某个命令的详情。`,
)

// Localise settles every help text below root in one language. What was settled stays.
func Localise(root *cobra.Command, lang string) {
	if IsChinese(lang) {
		root.SetUsageTemplate(headings.Replace(root.UsageTemplate()))
		for name, short := range map[string]string{"completion": "生成命令行补全脚本", "help": "查看命令帮助"} {
			if c, _, err := root.Find([]string{name}); err == nil && c != root {
				c.Short = short
			}
		}
	}
	settleAll(root, lang)
}

func settleAll(cmd *cobra.Command, lang string) {
	for _, s := range []*string{&cmd.Short, &cmd.Long, &cmd.Example} {
		*s = settle(*s, lang)
	}
	flag := func(f *pflag.Flag) { f.Usage = settle(f.Usage, lang) }
	cmd.Flags().VisitAll(flag)
	cmd.PersistentFlags().VisitAll(flag)
	for _, g := range cmd.Groups() {
		g.Title = settle(g.Title, lang)
	}
	for _, sub := range cmd.Commands() {
		settleAll(sub, lang)
	}
}

func settle(s, lang string) string {
	en, zh, both := strings.Cut(s, Mark)
	if both {
		return fault.Text{EN: en, ZH: zh}.In(lang)
	}
	return s
}
