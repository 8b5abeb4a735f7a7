"""The browser of tests that look at pages."""

from __future__ import annotations

import shutil

import pytest


def browser(tmp_path):
    """A Chromium without a window, whose profile lies below tmp_path; its log has what pages complain of."""
    from selenium import webdriver

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("there is no Chromium (Debian: chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for o in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path}/profile",
    ):
        options.add_argument(o)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    b = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    b.set_script_timeout(300)  # of 30, in which a busy machine may not have looked through a page
    return b
