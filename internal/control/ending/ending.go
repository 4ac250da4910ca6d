package ending

import (
	"sync"

	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Rules is read when the first replica fails.
var Rules = sync.OnceValue(diagnose.Load)

// Whole is all that is known of an end: its text, why, and the words that decided.
func Whole(who, node string, e *engine.Exit) fault.Text {
	text := Because(Text(who, node, e), Cause(e), e)
	if e.Line != "" && !speaks(Cause(e)) { // no rule knows the last line; people may
		text = led(e.Line, text)
	}
	return text
}

// Because adds to how it ended why, and before it the words that decided.
func Because(text fault.Text, r *diagnose.Rule, e *engine.Exit) fault.Text {
	if speaks(r) || len(r.Signals) > 0 { // else the end itself has said it
		text.EN += " Cause: " + r.Text.EN + "."
		text.ZH += "原因：" + r.Text.ZH + "。"
	}
	if e.Line != "" && speaks(r) { // the program's own words lead
		text = led(e.Line, text)
	}
	return text
}

// speaks says that a rule goes by what was printed.
func speaks(r *diagnose.Rule) bool { return len(r.Words)+len(r.Final) > 0 }

func led(line string, text fault.Text) fault.Text {
	return fault.Text{EN: line + " — " + text.EN, ZH: line + " —— " + text.ZH}
}

// Cause is the rule the launcher found by the last words, or, where none looked, by the end alone.
func Cause(e *engine.Exit) *diagnose.Rule {
	for _, r := range Rules() {
		if r.ID == e.Cause {
			return r
		}
	}
	return Rules().Cause(diagnose.Evidence{Code: e.Code, Signal: e.Signal, Reason: e.Reason})
}

// Text says how who, a replica on a node, ended.
func Text(who, node string, e *engine.Exit) fault.Text {
	switch e.Reason {
	case engine.ReasonNonZero:
		return fault.T("%s ended with exit code %d.", "%s 以退出码 %d 结束。", who, e.Code)
	case engine.ReasonSignaled:
		return fault.T("%s was killed by %s.", "%s 被 %s 终止。", who, e.Signal)
	case engine.ReasonOutOfMemory:
		return fault.T("%s used more memory than it asked for and was killed.", "%s 内存超限，已被终止。", who)
	case engine.ReasonProcessLimit:
		why := fault.Unpack(e.Message)
		return fault.T("%[1]s could make no more processes and ended with exit code %[2]d. %[3]s", "%[1]s 无法再创建进程，以退出码 %[2]d 结束。%[4]s", who, e.Code, why.EN, why.In("zh"))
	case engine.ReasonDiskLimit:
		why := fault.Unpack(e.Message)
		return fault.T("%[1]s kept more on disk than it may and was ended. %[2]s", "%[1]s 磁盘用量超限，已被结束。%[3]s", who, why.EN, why.In("zh"))
	case engine.ReasonTimedOut:
		return fault.T("%s ran longer than its time limit.", "%s 运行超时。", who)
	case engine.ReasonLauncherLost:
		if why := fault.Unpack(e.Message); why.ZH != "" { // its engine knows more
			return fault.T("%[1]s was lost on node %[2]s. %[3]s", "%[1]s 在节点 %[2]s 上丢失。%[4]s", who, node, why.EN, why.ZH)
		}
		return lostText(who, node, e.Cause)
	case engine.ReasonSilent:
		return fault.T("The launcher of %s on node %s was not heard any more while the others waited for it.", "节点 %[2]s 上 %[1]s 的启动器失去联系，其他副本在等待它。", who, node)
	case engine.ReasonNodeLost:
		return fault.T("%s is gone with its node %s: an operator said that the machine is lost.", "%s 已随节点 %s 丢失：运维人员确认该机器已丢失。", who, node)
	case engine.ReasonLeftEarly:
		return fault.T("%s ended with exit code 0 while other ranks still needed it.", "%s 以退出码 0 结束，而其他 rank 仍需要它。", who)
	case engine.ReasonStartFailed:
		why := fault.Unpack(e.Message)
		return fault.Text{EN: who + " could not be started: " + why.EN, ZH: who + " 无法启动：" + why.In("zh")}
	case diagnose.ReasonHung:
		return fault.T("%s made no progress after step %d while others waited for it.", "%s 在第 %d 步之后没有进展，其他进程在等待它。", who, e.Step)
	case diagnose.ReasonStopped:
		return fault.T("A process of %s was stopped after step %d and did not go on.", "%s 的进程在第 %d 步之后被暂停且未恢复。", who, e.Step)
	case engine.ReasonStopped:
		return fault.T("%s was stopped.", "%s 被停止。", who)
	}
	return fault.T("%s ended: %s", "%s 已结束：%s", who, e.Reason)
}

// lostText says how a launcher went: a process that was killed is no lost node.
func lostText(who, node, cause string) fault.Text {
	switch cause {
	case engine.CauseNodeRestarted:
		return fault.T("Node %[2]s restarted, and %[1]s ended with it.", "节点 %[2]s 发生重启，%[1]s 随之结束。", who, node)
	case engine.CauseLauncherNotStarted:
		return fault.T("The launcher of %[1]s could not be started on node %[2]s.", "无法在节点 %[2]s 上启动 %[1]s 的启动器。", who, node)
	case engine.CauseLauncherKilled:
		return fault.T("The launcher of %[1]s, a process on node %[2]s, was killed; its processes were ended. The node is up.", "节点 %[2]s 上 %[1]s 的启动器进程被杀死，其进程已结束。节点本身正常。", who, node)
	case "":
		return fault.T("The launcher of %[1]s on node %[2]s is gone, and nothing says how; its processes were ended.", "节点 %[2]s 上 %[1]s 的启动器已不在，原因不明；其进程已结束。", who, node)
	}
	return fault.T("The launcher of %s was killed; its processes were ended.", "%s 的启动器被杀死，其进程已结束。", who) // for the cause that follows
}
