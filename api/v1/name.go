package v1

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names that always exist: made at first start, used when nothing else is said.
const (
	DefaultProject = "default"
	DefaultQueue   = "default"
)

const (
	maxName        = 63 // RFC 1123 label
	maxNameStem    = 40
	maxDisplayName = 128 // characters, not bytes
	nameSuffix     = 5
)

// MakeName is MakeNameFor a training task.
func MakeName(displayName string, random func(n int) string) string {
	return MakeNameFor(KindTrainingTask, displayName, random)
}

// MakeNameFor makes a DNS-safe name from a text in any language: ASCII letters and digits are
// kept in lower case, every other run becomes one '-', and random characters keep two objects of
// the same displayName apart: "GPT大模型分布式训练" becomes "gpt-7x2k9". Where nothing is left
// of the text the kind's word takes its place: "task-7x2k9". random must answer with lower-case
// letters and digits.
func MakeNameFor(kind Kind, displayName string, random func(n int) string) string {
	var b strings.Builder
	gap := false
	for _, r := range displayName {
		switch {
		case r >= 'A' && r <= 'Z':
			r += 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
		default:
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('-')
		}
		gap = false
		b.WriteRune(r)
		if b.Len() >= maxNameStem {
			break
		}
	}
	stem := b.String()
	if len(stem) > maxNameStem {
		stem = stem[:maxNameStem]
	}
	stem = strings.TrimRight(stem, "-")
	if stem == "" {
		stem = "object"
		if info, ok := InfoOf(kind); ok {
			stem = info.Singular
		}
	}
	return stem + "-" + random(nameSuffix)
}

// IsName says whether s is an RFC 1123 label: 1 to 63 lower-case letters, digits and '-', with a
// letter or digit at both ends.
func IsName(s string) bool {
	if s == "" || len(s) > maxName || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}

// looksLikeID says that a name could be taken for an id, which lookups accept in a name's place:
// a known prefix, '-', and 20 characters.
func looksLikeID(s string) bool {
	for _, row := range Kinds {
		if rest, ok := strings.CutPrefix(s, row.IDPrefix+"-"); ok && len(rest) == 20 && !strings.Contains(rest, "-") {
			return true
		}
	}
	return false
}

func (f *faults) name(path, s string) {
	switch {
	case s == "":
		f.add(path, "This field is required: give a name such as gpt-train-1.", "此字段必填：请填写名称，例如 gpt-train-1。")
	case !IsName(s):
		f.add(path,
			"%s is not a name: use 1 to 63 lower-case letters, digits and '-', with a letter or digit at both ends, such as gpt-train-1. Any other text may go into displayName.",
			"%s 不是合法名称：请使用 1 到 63 个小写字母、数字或 '-'，且首尾为字母或数字，例如 gpt-train-1。其他文字可写在 displayName 中。", quote(s))
	case looksLikeID(s):
		f.add(path,
			"%s has the form of an id and could be mistaken for one; choose another name.",
			"%s 与系统 ID 的格式相同，容易混淆，请换一个名称。", quote(s))
	}
}

func (f *faults) displayName(path, s string) {
	if !utf8.ValidString(s) {
		f.add(path, "The text is not valid UTF-8.", "文本不是合法的 UTF-8 编码。")
		return
	}
	if n := utf8.RuneCountInString(s); n < 1 || n > maxDisplayName {
		f.add(path, "The display name has %d characters; 1 to 128 are allowed.", "显示名称有 %d 个字符，允许 1 到 128 个字符。", n)
		return
	}
	visible := false
	for _, r := range s {
		if forbiddenRune(r) {
			f.add(path,
				"The character %U is a control or text-direction character, which a display name must not hold; remove it.",
				"显示名称不能包含控制字符或文字方向字符 %U，请删除。", r)
			return
		}
		visible = visible || seen(r)
	}
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	switch {
	case !visible:
		f.add(path, "Nothing of the display name can be seen; use at least one visible character.", "显示名称中没有可见字符，请至少使用一个可见字符。")
	case unicode.IsSpace(first) || unicode.IsSpace(last):
		f.add(path, "The display name starts or ends with a space; remove it.", "显示名称首尾不能有空格，请删除。")
	}
}

// forbiddenRune are the characters that break a line of a log or a table, or make a text read
// as another: controls, line separators, and the characters that turn the reading direction.
func forbiddenRune(r rune) bool {
	switch {
	case unicode.IsControl(r), r == 0x2028, r == 0x2029:
		return true
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0x200E, r == 0x200F, r == 0x061C:
		return true
	}
	return false
}

// seen says that a character leaves ink: not a space, a joiner or a mark on something absent.
// Hangul fillers and the braille blank are letters and symbols by class, but blank.
func seen(r rune) bool {
	switch r {
	case 0x115F, 0x1160, 0x3164, 0xFFA0, 0x2800:
		return false
	}
	return !unicode.IsSpace(r) && !unicode.In(r, unicode.Cf, unicode.Mn, unicode.Me, unicode.Zs)
}
