package recipe

import "github.com/fermi-cluster/fermi/internal/fault"

const maxBatch = 1 << 30

// batch is train = micro × steps × data; all 0 where the task names none.
type batch struct{ train, micro, steps int }

// settleBatch finds what the task left out, or refuses with the nearest sizes that divide.
func (w *work) settleBatch() {
	st, data := w.st, w.sizes.data
	b := batch{st.TrainBatchSize, st.MicroBatchSize, st.AccumulationSteps}
	if b == (batch{}) {
		if w.deepspeed() {
			w.warn("No batch size is given, and DeepSpeed needs one: 1 sample a process is written; give trainBatchSize or microBatchSize.",
				"未给出批大小，而 DeepSpeed 需要它：已写入每进程 1 个样本；请填写 trainBatchSize 或 microBatchSize。")
			w.batch = batch{data, 1, 1}
		}
		return
	}
	given := b.micro > 0 && b.steps > 0
	switch unit := max(1, b.micro) * max(1, b.steps); {
	case unit > maxBatch/data:
		w.refuse(atStrategy+".microBatchSize", fault.T("micro batch × accumulation × data is over %d samples.", "微批 × 累积步数 × 数据并行数超过 %d 个样本。", maxBatch))
	case b.train == 0:
		b.micro, b.steps = max(1, b.micro), max(1, b.steps)
		b.train = unit * data
	case given && b.train != unit*data:
		w.refuse(atStrategy+".trainBatchSize", fault.T("%[1]d is not microBatchSize × accumulationSteps × data = %[2]d; give %[2]d, or leave one of them out.",
			"%[1]d 不等于 microBatchSize × accumulationSteps × data = %[2]d；请改为 %[2]d，或省略其中之一。", b.train, unit*data))
	case b.train%(unit*data) != 0:
		low, high := nearest(b.train, unit*data)
		w.refuse(atStrategy+".trainBatchSize", fault.T("%[1]d can't be divided by %[2]d (data %[3]d × %[4]d); the nearest sizes are %[5]s.",
			"%[1]d 不能被 %[2]d（data %[3]d × %[4]d）整除；最接近的批大小是 %[5]s。", b.train, unit*data, data, unit, either(low, high)))
	case b.micro > 0:
		b.steps = b.train / (b.micro * data)
	default:
		b.steps = max(1, b.steps)
		b.micro = b.train / (b.steps * data)
	}
	w.batch = b
}

// nearest are the multiples of unit below and above n; low is 0 where there is none.
func nearest(n, unit int) (low, high int) {
	low = n / unit * unit
	return low, low + unit
}

func either(low, high int) string {
	if low == 0 {
		return numbers([]int{high}, 1)
	}
	return numbers([]int{low, high}, 2)
}
