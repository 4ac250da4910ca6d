package history

import (
	"fmt"
	"strings"
	"time"
)

// usageColumns are the columns behind the keys; nothing else reaches the statement as text.
var usageColumns = map[UsageKey]string{
	UsageByProject: "project", UsageByUser: "owner", UsageByTask: "task", UsageByZone: "zone", UsageByType: "type",
}

// SQL is the statement for a dialect: least and greatest of two values, and how the n-th argument is
// written. Both adapters run this one, so that a sum means the same in both.
func (q UsageQuery) SQL(least, greatest string, arg func(n int) string) (string, []any, error) {
	column, ok := usageColumns[q.By]
	if !ok {
		return "", nil, fmt.Errorf("usage by %q", q.By)
	}
	args := []any{q.From.UnixNano(), q.To.UnixNano()}
	from, to := arg(1), arg(2)
	where := "start < " + to + " AND (stop IS NULL OR stop > " + from + ")"
	if q.Projects != nil {
		marks := make([]string, len(q.Projects))
		for i, p := range q.Projects {
			args = append(args, p)
			marks[i] = arg(len(args))
		}
		if len(marks) == 0 {
			marks = []string{"NULL"}
		}
		where += " AND project IN (" + strings.Join(marks, ", ") + ")"
	}
	limit := q.Limit
	if limit == 0 {
		limit = 100
	}
	args = append(args, min(max(limit, 1), 1000))
	return `SELECT k, COUNT(*), CAST(SUM(running) AS BIGINT), CAST(SUM(devices * ms) AS BIGINT), CAST(SUM(cpu * ms) AS BIGINT),
		CAST(SUM(memory / 1048576 * ms) AS BIGINT), CAST(SUM(price_hour * ms) / 3600000.0 AS DOUBLE PRECISION) AS cost
		FROM (SELECT ` + column + ` AS k, devices, cpu, memory, price_hour, CASE WHEN stop IS NULL THEN 1 ELSE 0 END AS running,
			(` + least + `(COALESCE(stop, ` + to + `), ` + to + `) - ` + greatest + `(start, ` + from + `)) / 1000000 AS ms FROM usage WHERE ` + where + `) AS stays
		GROUP BY k ORDER BY cost DESC, k LIMIT ` + arg(len(args)), args, nil
}

// Sum is a row of that statement's answer.
func Sum(key string, replicas, running, deviceMillis, coreMillis, memoryMillis int64, cost float64) UsageSum {
	return UsageSum{
		Key: key, Replicas: int(replicas), Running: int(running), Devices: time.Duration(deviceMillis) * time.Millisecond,
		Cores:    time.Duration(coreMillis/1000) * time.Millisecond, // of milli-cores
		MemoryGB: float64(memoryMillis) / 1024 / 3.6e6, Cost: cost,
	}
}
