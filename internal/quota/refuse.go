package quota

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// limitHints say what to delete, by the field of a project's limits.
var limitHints = map[string]fault.Text{
	"logs":        fault.T("Delete tasks whose logs nobody needs (fermi delete task NAME)", "请删除不再需要其日志的任务（fermi delete task NAME）"),
	"outputs":     fault.T("Delete tasks whose outputs nobody needs (fermi delete task NAME)", "请删除不再需要其产出的任务（fermi delete task NAME）"),
	"archives":    fault.T("Delete tasks whose code nobody needs (fermi delete task NAME)", "请删除不再需要其代码的任务（fermi delete task NAME）"),
	"checkpoints": fault.T("Delete tasks whose checkpoints nobody needs, or keep fewer (spec.checkpoint.shared.keep)", "请删除不再需要其检查点的任务，或减少保留数量（spec.checkpoint.shared.keep）"),
	"assets":      fault.T("Delete versions of datasets and models that nobody needs (fermi data delete NAME VERSION)", "请删除不再需要的数据集与模型版本（fermi data delete NAME VERSION）"),
	"objects":     fault.T("Delete ended tasks (fermi delete task NAME), or wait until they are archived", "请删除已结束的任务（fermi delete task NAME），或等待其归档"),
	"secrets":     fault.T("Delete secrets that nobody names (fermi secret delete NAME)", "请删除不再使用的密钥（fermi secret delete NAME）"),
}

var limitNames = map[string]fault.Text{
	"logs": fault.T("logs", "日志"), "outputs": fault.T("outputs", "产出"), "archives": fault.T("uploaded code", "代码包"),
	"checkpoints": fault.T("checkpoints in the shared store", "共享存储检查点"), "assets": fault.T("datasets and models", "数据集与模型"), "objects": fault.T("tasks", "任务"), "secrets": fault.T("secrets", "密钥"),
}

// OverLimit is the refusal of what would go over a limit of a project: which limit, what is used, and what
// to delete. The amounts are api.Bytes or int.
func OverLimit[T api.Bytes | int](project, field string, used, more, most T) *fault.Error {
	what, hint := limitNames[field], limitHints[field]
	text := fault.T("The project %[1]q may keep at most %[2]v (%[5]s); it has %[3]v, and this would add %[4]v.",
		"项目 %[1]q 的%[6]s上限为 %[2]v，已有 %[3]v，本次还需 %[4]v。", project, most, used, more, what.EN, what.ZH)
	return fault.New(fault.Full, "ProjectLimit", text).
		WithFields(fault.Field{Path: "project.spec.limits." + field, Message: text}).
		WithHint(fault.T("%[1]s, or ask an admin: fermi project set %[3]s --max-%[4]s N.", "%[2]s；也可请管理员执行：fermi project set %[3]s --max-%[4]s N。", hint.EN, hint.ZH, project, field))
}
