"""Tune three settings of DQPRM with Optuna; poor trials are pruned.

A trial trains for a while, reports how many steps its tests take, and trains for longer unless it is pruned.

    pip install optuna .
    python examples/tune.py
"""

import optuna

import hocket as hk


def objective(trial):
    """Measure test steps after a part of the training, then after more, and so on."""
    chosen = {
        "learning_rate": trial.suggest_float("learning_rate", 0.1, 1.0),
        "temperature": trial.suggest_float("temperature", 0.005, 0.2, log=True),
        "discount": trial.suggest_float("discount", 0.8, 0.99),
    }
    for steps in (4_000, 8_000, 16_000):
        runs = hk.train("buttons", "dqprm", seeds=5, steps=steps, settings=chosen)
        taken = sum(float(run.tests().test_steps[-4:].mean()) for run in runs) / len(runs)
        trial.report(taken, steps)
        if trial.should_prune():
            raise optuna.TrialPruned
    return taken


if __name__ == "__main__":
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0), pruner=optuna.pruners.MedianPruner())
    study.optimize(objective, n_trials=20)
    print(f"{study.best_value:.1f} steps with", {name: round(value, 3) for name, value in study.best_params.items()})
