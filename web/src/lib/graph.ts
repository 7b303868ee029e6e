// Where the steps of a plan are drawn: each one right of those that it depends on.

export interface Step {
  readonly title: string;
  readonly depends_on: readonly string[];
}

export interface Place {
  /** Its column, from the left. */
  readonly column: number;
  /** Its place in the column, from the top. */
  readonly row: number;
}

export interface Edge {
  readonly from: number;
  readonly to: number;
}

export interface Layout {
  /** The place of each step, in the order of the plan. */
  readonly places: readonly Place[];
  /** From a step to one that depends on it, without those that others imply. */
  readonly edges: readonly Edge[];
  readonly columns: number;
  readonly rows: number;
}

export function layoutOf(steps: readonly Step[]): Layout {
  const numbers = new Map(steps.map((step, at) => [step.title, at]));
  const needs = steps.map((step) => step.depends_on.flatMap((title) => numbers.get(title) ?? []));
  const columns = columnsOf(needs);
  const byColumn: number[][] = [];
  for (const [step, column] of columns.entries()) (byColumn[column] ??= []).push(step);
  const rows = new Array<number>(steps.length).fill(0);
  for (const [at, column] of byColumn.entries()) {
    // A step is near those that it depends on, so that few edges cross.
    const middle = (step: number) => {
      const of = needs[step] ?? [];
      if (at === 0 || of.length === 0) return Number.POSITIVE_INFINITY;
      return of.reduce((sum, need) => sum + (rows[need] ?? 0), 0) / of.length;
    };
    column.sort((one, other) => middle(one) - middle(other) || one - other);
    for (const [row, step] of column.entries()) rows[step] = row;
  }
  const edges = needs.flatMap((of, to) =>
    of.filter((from) => !of.some((other) => other !== from && reaches(needs, from, other))).map((from) => ({ from, to })),
  );
  return {
    places: steps.map((_, step) => ({ column: columns[step] ?? 0, row: rows[step] ?? 0 })),
    edges,
    columns: byColumn.length,
    rows: Math.max(0, ...byColumn.map((column) => column.length)),
  };
}

/** The column of each step: one more than the last of those that it needs. A plan has no cycles. */
function columnsOf(needs: readonly (readonly number[])[]): number[] {
  const columns = new Array<number>(needs.length).fill(0);
  for (let pass = 0; pass < needs.length; pass += 1) {
    let changed = false;
    for (const [step, of] of needs.entries()) {
      const column = Math.max(0, ...of.map((need) => (columns[need] ?? 0) + 1));
      if (column !== columns[step] && column < needs.length) {
        columns[step] = column;
        changed = true;
      }
    }
    if (!changed) break;
  }
  return columns;
}

/** Whether one step comes before another through the steps that it needs. */
function reaches(needs: readonly (readonly number[])[], from: number, to: number): boolean {
  const seen = new Set<number>();
  const waiting = [to];
  for (let step = waiting.pop(); step !== undefined; step = waiting.pop()) {
    for (const need of needs[step] ?? []) {
      if (need === from) return true;
      if (!seen.has(need)) {
        seen.add(need);
        waiting.push(need);
      }
    }
  }
  return false;
}
