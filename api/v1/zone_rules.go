package v1

import (
	"math"
	"slices"
	"strconv"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	EngineLocal      = "local"      // processes on the machines of the servers
	EngineKubernetes = "kubernetes" // pods of a cluster
	maxLatencyMs     = 60_000
	maxGbps          = 1e6
	maxPrice         = 1e6 // an hour or a GB
	maxFactor        = 100
	maxWindows       = 48
	maxPUE           = 10
	maxCarbon        = 10_000 // g/kWh
	maxWatts         = 1e6
	minutesADay      = 24 * 60
)

// Default fills what the operator left out.
func (z *Zone) Default() {
	if z.Spec.Engine == "" {
		z.Spec.Engine = EngineLocal
	}
	if !z.Spec.Price.IsZero() && z.Spec.Price.Currency == "" {
		z.Spec.Price.Currency = DefaultCurrency
	}
}

// IsZero says that nothing is declared; the defaults hold.
func (p Price) IsZero() bool {
	return p.Currency == "" && p.DeviceHour == nil && p.CoreHour == nil && p.MemoryGBHour == 0 &&
		p.CrossingGB == 0 && p.SpotFactor == 0 && len(p.Devices) == 0 && len(p.Windows) == 0
}

// Device is what a device of a type costs an hour, before windows and spot.
func (p Price) Device(deviceType string) float64 {
	for _, t := range sortedKeys(p.Devices) {
		if FoldDevice(t) == FoldDevice(deviceType) {
			return p.Devices[t]
		}
	}
	if p.DeviceHour != nil {
		return *p.DeviceHour
	}
	return DefaultDeviceHour
}

// Core is what a core costs an hour.
func (p Price) Core() float64 {
	if p.CoreHour != nil {
		return *p.CoreHour
	}
	return DefaultCoreHour
}

// Validate lists every refused field.
func (z *Zone) Validate() []fault.Field {
	var f faults
	s := &z.Spec
	f.word("spec.region", s.Region, true)
	switch s.Engine {
	case EngineLocal, EngineKubernetes:
	default:
		f.add("spec.engine", "%s is no engine; use local, which runs processes on this machine, or kubernetes, which runs pods of the cluster that the server has for the zone.", "%s 不是已知的引擎，请使用 local（在本机运行进程）或 kubernetes（在服务为该可用区配置的集群中运行 Pod）。", quote(s.Engine))
	}
	f.peers("spec.latencyMs", z.Meta.Name, s.LatencyMs, maxLatencyMs)
	f.peers("spec.latencyP99Ms", z.Meta.Name, s.LatencyP99Ms, maxLatencyMs)
	f.peers("spec.bandwidthGbps", z.Meta.Name, s.BandwidthGbps, maxGbps)
	f.slowest(s)
	f.amount("spec.consoleLatencyMs", s.ConsoleLatencyMs, maxLatencyMs)
	if _, ok := ParseUTCOffset(s.UTCOffset); !ok {
		f.add("spec.utcOffset", "%s is no distance to UTC such as +08:00 or -03:30, at most 14 hours.", "%s 不是合法的 UTC 偏移，例如 +08:00 或 -03:30，最多 14 小时。", quote(s.UTCOffset))
	}
	f.price("spec.price", &s.Price)
	if s.PUE != 0 && !(s.PUE >= 1 && s.PUE <= maxPUE) {
		f.add("spec.pue", "%v is out of range: 1 (all power reaches the machines) to %d are allowed.", "%v 超出范围：允许 1（全部电力用于设备）到 %d。", s.PUE, maxPUE)
	}
	f.carbon("spec.carbon", s.Carbon)
	f.byType("spec.deviceWatts", s.DeviceWatts, maxWatts, false)
	f.health(s)
	return append(f.list, s.Roads.Validate(z.Meta.Name, IsName)...)
}

// peers checks a table over other zones. Zones that do not exist yet may be named: they may come.
func (f *faults) peers(at, self string, table map[string]float64, high float64) {
	if len(table) > maxList {
		f.add(at, "There are %d zones; at most %d are allowed.", "可用区有 %d 个，最多允许 %d 个。", len(table), maxList)
		return
	}
	for _, zone := range sortedKeys(table) {
		path := child(at, zone)
		f.name(path, zone)
		f.amount(path, table[zone], high)
		if zone == self {
			f.add(path, "This is the zone itself; only other zones have a place here.", "这是该可用区自身；此处只填写其他可用区。")
		}
	}
}

// slowest checks that p99 goes with, and is not below, p50; and that bandwidth is some.
func (f *faults) slowest(s *ZoneSpec) {
	if len(s.LatencyP99Ms) <= maxList {
		for _, zone := range sortedKeys(s.LatencyP99Ms) {
			usual, ok := s.LatencyMs[zone]
			switch path := child("spec.latencyP99Ms", zone); {
			case !ok:
				f.add(path, "The usual latency to %s is missing; give latencyMs too.", "缺少到 %s 的常规延迟，请同时填写 latencyMs。", quote(zone))
			case s.LatencyP99Ms[zone] < usual:
				f.add(path, "%v ms is less than the usual latency, %v ms.", "%v 毫秒小于常规延迟 %v 毫秒。", s.LatencyP99Ms[zone], usual)
			}
		}
	}
	if len(s.BandwidthGbps) <= maxList {
		for _, zone := range sortedKeys(s.BandwidthGbps) {
			if s.BandwidthGbps[zone] == 0 {
				f.add(child("spec.bandwidthGbps", zone), "A link of 0 Gbit/s is none; leave it out, or deny the zone.", "带宽为 0 表示没有链路；请去掉此项，或禁用该可用区。")
			}
		}
	}
}

func (f *faults) price(at string, p *Price) {
	f.money(at+".deviceHour", p.DeviceHour)
	f.money(at+".coreHour", p.CoreHour)
	f.money(at+".memoryGBHour", &p.MemoryGBHour)
	f.money(at+".crossingGB", &p.CrossingGB)
	f.byType(at+".devices", p.Devices, maxPrice, true)
	switch {
	case p.Currency == "" || p.Currency == DefaultCurrency:
	case !currency.MatchString(p.Currency):
		f.add(at+".currency", "%s is not a currency of three capital letters such as CNY.", "%s 不是三个大写字母的货币代码，例如 CNY。", quote(p.Currency))
	case p.DeviceHour == nil || p.CoreHour == nil:
		f.add(at+".currency", "The default prices are in CNY; a price book in %s says deviceHour and coreHour itself.", "默认价格以 CNY 计；使用 %s 的价目必须自行填写 deviceHour 和 coreHour。", p.Currency)
	}
	if math.IsNaN(p.SpotFactor) || p.SpotFactor < 0 || p.SpotFactor > 1 {
		f.add(at+".spotFactor", "%v is out of range: above 0 and at most 1 is allowed.", "%v 超出范围：应大于 0 且不超过 1。", p.SpotFactor)
	}
	f.windows(at+".windows", p.Windows)
}

// money checks a unit price: kept in millionths, so that sums are exact.
func (f *faults) money(at string, x *float64) {
	if x == nil {
		return
	}
	f.amount(at, *x, maxPrice)
	if micro := *x * 1e6; *x >= 0 && *x <= maxPrice && math.Abs(micro-math.Round(micro)) > 1e-3 {
		f.add(at, "%v is finer than a millionth, the smallest part of a price.", "%v 小于百万分之一，超出价格的最小精度。", *x)
	}
}

// byType checks a table over device types; two spellings of one type are refused.
func (f *faults) byType(at string, table map[string]float64, high float64, money bool) {
	if len(table) > maxList {
		f.add(at, "There are %d device types; at most %d are allowed.", "加速卡类型有 %d 种，最多允许 %d 种。", len(table), maxList)
		return
	}
	seen := map[string]string{}
	for _, t := range sortedKeys(table) {
		path := child(at, t)
		f.word(path, t, true)
		if x := table[t]; money {
			f.money(path, &x)
		} else {
			f.amount(path, x, high)
		}
		if other, twice := seen[FoldDevice(t)]; twice {
			f.add(path, "%s and %s are the same type; keep one.", "%s 与 %s 是同一类型，请只保留一个。", quote(t), quote(other))
		}
		seen[FoldDevice(t)] = t
	}
}

func (f *faults) windows(at string, windows []PriceWindow) {
	if len(windows) > maxWindows {
		f.add(at, "There are %d windows; at most %d are allowed.", "时段有 %d 个，最多允许 %d 个。", len(windows), maxWindows)
		return
	}
	owner := make([]int, minutesADay) // window + 1
	for i, w := range windows {
		path := item(at, i)
		if math.IsNaN(w.Factor) || w.Factor < 0 || w.Factor > maxFactor {
			f.add(path+".factor", "%v is out of range: 0 to %d are allowed.", "%v 超出范围：允许 0 到 %d。", w.Factor, maxFactor)
		}
		from, okFrom := ParseClock(w.From)
		to, okTo := ParseClock(w.To)
		switch {
		case !okFrom || from == minutesADay:
			f.add(path+".from", "%s is no time of day such as 22:00.", "%s 不是一天中的时刻，例如 22:00。", quote(w.From))
			continue
		case !okTo:
			f.add(path+".to", "%s is no time of day such as 06:00 or 24:00.", "%s 不是一天中的时刻，例如 06:00 或 24:00。", quote(w.To))
			continue
		case from == to:
			f.add(path+".to", "The window ends where it begins; for the whole day write 00:00 to 24:00.", "时段的起止相同；全天请写 00:00 到 24:00。")
			continue
		}
		for m := from; m%minutesADay != to%minutesADay || m == from; m++ {
			if other := owner[m%minutesADay]; other != 0 && other != i+1 {
				f.add(path, "It overlaps with window %d; every minute has one price.", "与第 %d 个时段重叠；每个时刻只能有一个价格。", other)
				break
			}
			owner[m%minutesADay] = i + 1
		}
	}
}

func (f *faults) carbon(at string, c *Carbon) {
	if c == nil {
		return
	}
	if (c.GramsPerKWh != nil) == (len(c.ByHour) > 0) {
		f.add(at, "Give exactly one of gramsPerKWh and byHour, or leave carbon out.", "gramsPerKWh 与 byHour 必须且只能填写一个，或去掉 carbon。")
	}
	if c.GramsPerKWh != nil {
		f.amount(at+".gramsPerKWh", *c.GramsPerKWh, maxCarbon)
	}
	if n := len(c.ByHour); n != 0 && n != 24 {
		f.add(at+".byHour", "There are %d numbers; a day has 24 hours.", "共有 %d 个数值；一天应有 24 个小时。", n)
		return
	}
	for i, g := range c.ByHour {
		f.amount(item(at+".byHour", i), g, maxCarbon)
	}
}

func (f *faults) health(s *ZoneSpec) {
	switch s.Health {
	case ZoneHealthy, ZoneDegraded:
	case "":
		if s.HealthReason != "" {
			f.add("spec.healthReason", "A reason without health says nothing; set health to healthy or degraded too.", "只有原因而没有状态；请同时把 health 设为 healthy 或 degraded。")
		}
	default:
		f.add("spec.health", "%s is no health; use healthy or degraded, or leave it out to have it derived.", "%s 不是合法的健康状态，请使用 healthy 或 degraded，或去掉此字段由系统判断。", quote(string(s.Health)))
	}
	f.description("spec.healthReason", s.HealthReason)
}

// CheckMeasured lists what is wrong with measured latencies of a zone.
func CheckMeasured(at, self string, table map[string]MeasuredLatency) []fault.Field {
	var f faults
	if len(table) == 0 || len(table) > maxList {
		f.add(at, "There are %d zones; 1 to %d are allowed.", "可用区有 %d 个，允许 1 到 %d 个。", len(table), maxList)
		return f.list
	}
	for _, zone := range sortedKeys(table) {
		m := table[zone]
		path := child(at, zone)
		f.peers(at, self, map[string]float64{zone: m.P50Ms}, maxLatencyMs)
		f.amount(path+".p99Ms", m.P99Ms, maxLatencyMs)
		if m.P99Ms < m.P50Ms {
			f.add(path+".p99Ms", "%v ms is less than the usual latency, %v ms.", "%v 毫秒小于常规延迟 %v 毫秒。", m.P99Ms, m.P50Ms)
		}
		f.count(path+".samples", m.Samples, 1, math.MaxInt32)
	}
	return f.list
}

// ParseClock reads "HH:MM" as minutes of the day, 0 to 24:00.
func ParseClock(s string) (minutes int, ok bool) {
	if len(s) != 5 || s[2] != ':' {
		return 0, false
	}
	h, errH := strconv.ParseUint(s[:2], 10, 8)
	m, errM := strconv.ParseUint(s[3:], 10, 8)
	minutes = int(h)*60 + int(m)
	return minutes, errH == nil && errM == nil && m < 60 && minutes <= minutesADay
}

// ParseUTCOffset reads "+08:00" as minutes east of UTC; "" is 0.
func ParseUTCOffset(s string) (minutes int, ok bool) {
	if s == "" {
		return 0, true
	}
	if !slices.Contains([]byte("+-"), s[0]) {
		return 0, false
	}
	minutes, ok = ParseClock(s[1:])
	if s[0] == '-' {
		minutes = -minutes
	}
	return minutes, ok && minutes >= -14*60 && minutes <= 14*60
}
