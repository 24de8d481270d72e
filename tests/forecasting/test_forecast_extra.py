import subprocess
import sys

import pytest

TRY = """
import sys
sys.modules["{package}"] = None
import foretide.errors
try:
    {job}
except foretide.errors.EnvironmentNotReadyError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("package", "job"),
    [
        (
            "jax",
            "from foretide.forecasting.worker_model import WorkerModel; WorkerModel.trained(None, {}, (0, 0))",
        ),
        (
            "equinox",
            "from foretide.forecasting.key_net import KeyNet; net = KeyNet(1); net.learn([{1: 2}] * 20); net.retrain()",
        ),
    ],
)
def test_without_the_extra_the_error_says_what_to_install(package, job):
    script = TRY.format(package=package, job=job)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'foretide[forecast]'" in done.stdout


def test_the_simple_models_of_keys_need_no_extra():
    script = (
        "import sys, foretide.forecasting.key_models, foretide.forecasting.worker_cluster; print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_names_and_settings_of_models_need_no_package():
    script = (
        "import sys, foretide.settings.forecasts, foretide.forecasting.load.registry;"
        "print({'numpy', 'sklearn', 'statsforecast', 'jax'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
