package demand

import (
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Verdict is what a canary's step was like.
type Verdict struct {
	// Back: it is rolled back. Next: the step is passed. Neither: it goes on.
	Back, Next bool
	Reason     string
	Message    fault.Text
}

// Checked is what the user's own check said.
type Checked struct {
	Done bool   // it was asked
	Bad  string // why it is bad; "": it is not
}

// slowShare is the share of answers that may begin later than maxLatency.
const slowShare = 0.05

// Judge says whether a revision passed its step: a function of what it answered since the step began.
func Judge(c *serving.Canary, at *serving.CanaryStatus, count serving.CanaryCount, checked Checked, approved bool, now time.Time) Verdict {
	base := at.Base
	if count.Requests < base.Requests { // counted anew
		base = serving.CanaryCount{}
	}
	asked, bad, slow := count.Requests-base.Requests, count.Errors-base.Errors, count.Slow-base.Slow
	enough := asked >= int64(max(c.MinRequests, 1))
	percent := 0.0
	if asked > 0 {
		percent = 100 * float64(bad) / float64(asked)
	}
	switch {
	case checked.Bad != "":
		return Verdict{Back: true, Reason: "CheckFailed", Message: fault.T("Its check %s says: %s.", "检查 %s 未通过：%s。", c.Check, checked.Bad)}
	case percent > c.MaxErrors && (enough || bad >= 5):
		return Verdict{Back: true, Reason: "TooManyErrors", Message: fault.T("%d of its %d answers failed, more than %g%%.", "%[2]d 个应答中有 %[1]d 个失败，超过 %[3]g%%。", bad, asked, c.MaxErrors)}
	case c.MaxLatency > 0 && enough && float64(slow) > slowShare*float64(asked):
		return Verdict{Back: true, Reason: "TooSlow", Message: fault.T("%d of its %d answers began later than %s.", "%[2]d 个应答中有 %[1]d 个的首字节晚于 %[3]s。", slow, asked, c.MaxLatency)}
	}
	for _, p := range []struct {
		not     bool
		reason  string
		message fault.Text
	}{
		{c.Check != "" && !checked.Done, "Checking", fault.T("Its check is asked.", "正在执行检查。")},
		{c.Manual && !approved, "WaitsForYou", fault.T("Go on with fermi service promote NAME.", "请用 fermi service promote NAME 继续。")},
		{!approved && now.Sub(at.Since) < c.Every.Std(), "Observing", fault.T("%d answers so far, %d failed.", "已应答 %d 个，失败 %d 个。", asked, bad)},
		{!approved && !enough, "FewRequests", fault.T("It answered %d requests; it is judged after %d.", "已应答 %d 个请求，满 %d 个后评判。", asked, c.MinRequests)},
	} {
		if p.not {
			return Verdict{Reason: p.reason, Message: p.message}
		}
	}
	return Verdict{Next: true, Reason: "StepPassed", Message: fault.T("%d answers, %d failed.", "应答 %d 个，失败 %d 个。", asked, bad)}
}
