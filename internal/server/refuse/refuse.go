package refuse

import (
	"fmt"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Clip keeps what strangers wrote short and printable.
func Clip(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "�")
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// Indexed is the path of an element of a list.
func Indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// Invalid refuses one field.
func Invalid(path string, text fault.Text) error {
	return fault.New(fault.Invalid, "InvalidField", fault.T("A field has a value that cannot be used.", "某个字段的值无法使用。")).
		WithFields(fault.Field{Path: path, Message: text})
}

// Missing says that an object is not there; what one may not see is not there either.
func Missing(row api.KindInfo, nameOrID string) error {
	err := fault.New(fault.NotFound, "NotFound", fault.T(
		"There is no %s %q, or you may not see it.", "%s %q 不存在，或您无权查看。", row.Singular, Clip(nameOrID, 128)))
	if row.Kind == api.KindProject {
		return err.WithHint(fault.T("Projects are listed by `fermi project list`, and made by administrators: fermi project create NAME.",
			"项目列表见 `fermi project list`；管理员可以创建项目：fermi project create 名称。"))
	}
	return err
}

// NotMember refuses a project of others; it says the same of one that does not exist.
func NotMember(project string) error {
	return fault.New(fault.Forbidden, "NotMember", fault.T(
		"The project %q does not exist, or you are not a member of it.", "项目 %q 不存在，或您不是其成员。", Clip(project, 64))).
		WithHint(fault.T("Name a project of yours (--project), or ask an administrator to add you: fermi project add-member PROJECT USER.",
			"请指定您所在的项目（--project），或请管理员将您加入：fermi project add-member 项目 用户。"))
}

// TooMany refuses for now.
func TooMany(reason string, wait time.Duration, text fault.Text) error {
	e := fault.New(fault.TooMany, reason, text)
	e.RetryAfter = max(wait, time.Second)
	return e
}

// FixedField is a field that keeps its value.
func FixedField(path string) fault.Field {
	return fault.Field{Path: path, Message: fault.T("It cannot be changed once the object is made.", "对象创建后不可更改。")}
}

// Immutable refuses a change of such fields.
func Immutable(fields []fault.Field) error {
	return fault.New(fault.Invalid, "Immutable", fault.T("Some fields cannot be changed.", "部分字段不可更改。")).WithFields(fields...).WithHint(
		fault.T("Of a task, displayName, labels, description and priority may change; clone it for more.", "任务只能修改 displayName、labels、description 和优先级；其他修改请克隆任务。"))
}

// ServerSets refuses a field of a new object that only the server sets.
func ServerSets(path string, text fault.Text) error {
	return fault.New(fault.Invalid, "InvalidField", fault.T("The manifest has a field that only the server sets.", "清单包含只能由系统设置的字段。")).
		WithFields(fault.Field{Path: path, Message: text})
}

// NoPlanner is the answer of a server that knows nothing of the leader's memory.
var NoPlanner = fault.New(fault.Unavailable, "NoPlanner", fault.T("This server has no planner.", "该服务器没有调度器。"))
