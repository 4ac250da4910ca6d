// Work to look at, for all scenes after it.
import { writeFile } from "node:fs/promises";
import { startHosts } from "./inside.mjs";
import { call, must, platform, submit, test, text, untilPhase } from "./scene.mjs";
import { hurtTask } from "./training.mjs";

test("work to look at", async () => {
  const ids = {};
  const h800 = { resources: { accelerators: { type: "H800", count: 8 } }, replicas: 4 };
  await submit("GPT大模型分布式训练", "sleep 600", h800);
  await submit("图像分类 ResNet", "sleep 600", { resources: { accelerators: { count: 4 } }, replicas: 3 });
  const dies = await submit("数据预处理", "echo no such file >&2; exit 3");
  ids.done = await submit("带输出的任务", 'echo forty-two > "$FERMI_OUTPUT/result.txt"');
  await call("POST", "/projects", { metadata: { name: "quiet", displayName: "安静的项目" } });
  await call("POST", "/queues", { metadata: { name: "halted" }, spec: { paused: true, projects: ["default"] } });
  ids.hurt = await hurtTask({ call, text, untilPhase, must });
  await startHosts({ call, untilPhase });
  ids.waits = await submit("等待中的任务", "true", {}, { queue: "halted" });
  await untilPhase(dies, "Failed");
  await untilPhase(ids.done, "Completed");
  await writeFile(platform().work, JSON.stringify(ids));
});
